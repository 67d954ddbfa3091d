"""A forked process has none of the client's threads: it is refused rather than left waiting."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lake.buckets import Bucket

pytest.importorskip("obstore")

# A process of its own: what a test worker has loaded and started must not matter.
SCRIPT = """
import json, multiprocessing, sys
from dvcodec.core.errors import UsageError
from dvcodec.io.store import open_store

def read(url, options, found):
    try:
        store, key = open_store(url, options)
        found.put(bytes(store.get(key).data).decode())
    except UsageError as err:
        found.put(str(err))

if __name__ == "__main__":
    method, url, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    store, key = open_store(url, options)
    store.get(key)
    context = multiprocessing.get_context(method)
    found = context.Queue()
    child = context.Process(target=read, args=(url, options, found), daemon=True)
    child.start()
    print(found.get(timeout=600))
    child.join(20)
    sys.exit(child.exitcode)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.parametrize(("method", "said"), [("fork", "start processes by 'spawn'"), ("spawn", "x")])
def test_another_process(counted_s3: Bucket, tmp_path: Path, method: str, said: str) -> None:
    counted_s3.put({"k": b"x"})
    script = tmp_path / "parent.py"
    script.write_text(SCRIPT)
    arguments = [sys.executable, str(script), method, f"{counted_s3.url}/k", json.dumps(dict(counted_s3.options))]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=600)
    assert (done.returncode, said in done.stdout) == (0, True), done.stdout + done.stderr

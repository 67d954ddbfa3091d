"""Ctrl-C ends a command that waits for a server in many threads; a forked process is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from cli_runner import PROGRAM
from lake.buckets import Bucket
from lake.web import Quiet, serving

pytest.importorskip("obstore")

KEY = "<Contents><Key>t/{}.puffin</Key><LastModified>2015-10-21T07:28:00.000Z</LastModified><Size>9</Size></Contents>"
LIST = f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(map(KEY.format, range(50)))}</ListBucketResult>"


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("mode", ["stalls", "throttles"])
def test_ctrl_c(mode: str) -> None:
    asked = threading.Event()
    ended = threading.Event()

    class Answer(Quiet):
        def do_HEAD(self) -> None:
            self.say(404, {})

        def do_GET(self) -> None:
            if "list-type" in self.path:
                self.say(200, {}, LIST.encode())
                return
            asked.set()
            if mode == "stalls":
                ended.wait()
            else:
                self.say(503, {})

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Answer)) as url:
        given = {"endpoint": url, "allow_http": "true", "max_retries": "20"}
        given |= {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
        options = [part for pair in given.items() for part in ("--storage-option", "=".join(pair))]
        # A background job may ignore it.
        program = [PROGRAM[0], "-c", f"import signal; signal.signal(2, signal.default_int_handler); {PROGRAM[2]}"]
        process = subprocess.Popen([*program, "verify", "s3://lake/t", *options], stderr=subprocess.PIPE)
        try:
            assert asked.wait()
            process.send_signal(signal.SIGINT)
            assert process.wait() == 130
        finally:
            process.kill()
            process.communicate()
            ended.set()


# -------------------------- a forked process has none of the client's threads: it is refused rather than left waiting


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

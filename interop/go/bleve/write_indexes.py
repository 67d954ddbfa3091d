"""Rewrites tests/vectors/tables/scorch/bleve-VERSION: `.venv/bin/python interop/go/bleve/write_indexes.py`.

Needs the built programs (`make interop-go`). The recipes are in tests/interop/scorch_indexes.py.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from interop import scorch_indexes  # noqa: E402
from interop.driver import GoBleve  # noqa: E402

README = """# Scorch indexes
Written by bleve {bleve} (bbolt {bbolt}) through `interop/go/bleve/write_indexes.py`, which rewrites these files.
(The order of documents in a segment is random, and times differ.)

Each folder is a whole index, and `NAME.json` has what scorch returned for every epoch: the number of documents, the
segments with their deleted documents' numbers and all stored documents, and the live documents by id.

`small-vNN`: three batches in zap version NN: documents, deletes, and updates with a delete. All epochs are kept.

Does not prove: branch pages, buckets with pages of their own in every place, values over several pages, other page
sizes, dropped fields and nested documents; `tests/interop/test_tables_scorch.py` creates larger indexes.
"""


def main() -> None:
    """Rewrite everything."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        bleve = GoBleve(scratch)
        modules = bleve.versions()
        name = modules["github.com/blevesearch/bleve/v2"].removeprefix("v")
        target = ROOT / "tests" / "vectors" / "tables" / "scorch" / f"bleve-{name}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        for index, (version, batches) in scorch_indexes.COMMITTED.items():
            path = scorch_indexes.make(bleve, target / index, version, batches(), scratch)
            epochs = ",\n".join(json.dumps(epoch) for epoch in scorch_indexes.truth(bleve, path, scratch))
            (target / f"{index}.json").write_text(f"[\n{epochs}\n]\n")
        (target / "README.md").write_text(
            README.format(bleve=name, bbolt=modules["go.etcd.io/bbolt"].removeprefix("v"))
        )


if __name__ == "__main__":
    main()

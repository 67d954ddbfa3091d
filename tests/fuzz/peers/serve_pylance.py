"""A deletion file in, the physical rows that a scan of pylance leaves out out, as u32 LE."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import lance as pylance
from fuzz.peers.serve import serve

rows = int(sys.argv[1])
folder = Path(tempfile.mkdtemp(prefix="fuzz-lance-"))
atexit.register(shutil.rmtree, folder, ignore_errors=True)
files = {}
for kind, count in (("arrow", 10), ("bin", 6000)):
    path = str(folder / kind)
    pylance.write_dataset(pa.table({"i": np.arange(rows, dtype=np.int32)}), path).delete(f"i % {rows // count} = 0")
    (files[kind],) = Path(path, "_deletions").iterdir()


def read(data: bytes) -> bytes:
    kind = "arrow" if data[:6] == b"ARROW1" else "bin"
    files[kind].write_bytes(data)
    (fragment,) = pylance.dataset(str(folder / kind)).get_fragments()
    live = fragment.to_table(columns=[], with_row_address=True)["_rowaddr"].to_numpy()
    gone = np.ones(rows, np.bool_)
    gone[live & np.uint64(2**32 - 1)] = False
    return np.flatnonzero(gone).astype("<u4").tobytes()


serve(read)

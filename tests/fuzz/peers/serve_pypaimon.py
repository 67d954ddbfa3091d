"""A frame in, the bitmap that pypaimon reads out; run in its environment.

Contains no codec of its own: `drive` beside that environment has pypaimon read the frame.
"""

from __future__ import annotations

import struct
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fuzz.peers.serve import serve

sys.path.insert(0, str(Path(__file__).parents[3] / "interop" / "pypaimon"))
drive: Any = import_module("drive")


def read(data: bytes) -> bytes:
    length = struct.unpack_from(">i", data)[0] if len(data) >= 4 else 0
    found = drive.DeletionVector.read(drive._OneFile(data), SimpleNamespace(dv_index_path="x", offset=0, length=length))
    return bytes(found.bit_map().serialize())


serve(read)

"""Answers for pypaimon, in its own environment: a frame in, a bitmap or an error out, until the input ends.

Contains no codec of its own: `drive` beside the environment has pypaimon read the frame.
"""

from __future__ import annotations

import json
import struct
import sys
from types import SimpleNamespace


def main(folder: str) -> None:
    sys.path.insert(0, folder)
    from drive import DeletionVector, _OneFile

    source, sink = sys.stdin.buffer, sys.stdout.buffer
    while head := source.read(4):
        data = source.read(*struct.unpack("<I", head))
        length = struct.unpack_from(">i", data)[0] if len(data) >= 4 else 0
        try:
            found = DeletionVector.read(_OneFile(data), SimpleNamespace(dv_index_path="x", offset=0, length=length))
            answer = b"+" + found.bit_map().serialize()
        except Exception as error:  # noqa: BLE001  (what it refuses is data)
            answer = b"-" + json.dumps(f"{type(error).__name__}: {error}").encode()
        sink.write(struct.pack("<I", len(answer)) + answer)
        sink.flush()


if __name__ == "__main__":
    main(sys.argv[1])

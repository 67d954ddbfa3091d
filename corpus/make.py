"""Write the corpus, ``PYTHONPATH=tests python corpus/make.py``: files of other programs, and bytes put together.

Nothing here is encoded by dvcodec, except Mumbling bitmaps, which no released program writes.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dvcodec import RowSet, mumbling
from samples.bitmaps import NATIVE, PAIMON, PORTABLE, array, bitmap, bitset, frame, framed, native64, runs, vector64

HERE = Path(__file__).parent
VECTORS = HERE.parent / "tests" / "vectors"
LAYOUT = "put together byte by byte, after the specification"
CASES: list[dict[str, Any]] = []

EVENS = range(0, 10_000, 2)
VALID = {
    "empty": (bitmap(), []),
    "one": (bitmap(array(0, [5])), [5]),
    "array": (bitmap(array(0, [1, 3, 5, 7, 9])), [1, 3, 5, 7, 9]),
    "run": (bitmap(runs(0, [(10, 100)])), [*range(10, 110)]),
    "whole-container": (bitmap(runs(0, [(0, 1 << 16)])), [*range(1 << 16)]),
    "bitset": (bitmap(bitset(0, EVENS)), [*EVENS]),
    "three-kinds": (
        bitmap(array(0, [7]), runs(1, [(0, 1 << 16)]), bitset(2, EVENS)),
        [7, *range(1 << 16, 2 << 16), *((2 << 16) + row for row in EVENS)],
    ),
    "four-arrays": (
        bitmap(array(0, [1]), array(1, [2, 3]), array(2, [65535]), array(3, [0])),
        [1, 65538, 65539, 196607, 196608],
    ),
}
"""32-bit bitmaps and their positions."""
TWO = (array(0, [1, 5]), array(1, [3]))
CORRUPT = {
    "values-not-ascending": bitmap(array(0, [9, 5])),
    "value-twice": bitmap(array(0, [5, 5])),
    "array-claims-more": bitmap(array(0, [1, 5]).claiming(3)),
    "array-claims-less": bitmap(array(0, [1, 5, 9]).claiming(2)),
    "run-cardinality": bitmap(runs(0, [(10, 100)]).claiming(99)),
    "bitset-cardinality": bitmap(bitset(0, EVENS).claiming(5001)),
    "runs-overlap": bitmap(runs(0, [(10, 10), (15, 10)])),
    "runs-not-ascending": bitmap(runs(0, [(100, 10), (5, 10)])),
    "run-beyond-container": bitmap(runs(0, [(65530, 10)])),
    "keys-not-ascending": bitmap(*TWO[::-1]),
    "key-twice": bitmap(array(1, [1, 5]), array(1, [3])),
    "offset-table": bitmap(*TWO, offsets=[24, 30]),
    "run-cookie-without-run": bitmap(array(0, [5]), flags=b"\0"),
    "run-flags-padding": bitmap(runs(0, [(10, 100)]), flags=b"\x81"),
    "cookie": b"\x39\x30" + bitmap(array(0, [5]))[2:],
    "containers-beyond-end": b"\x3a\x30\0\0\x40\0\0\0" + bitmap(array(0, [5]))[8:],
    "ends-in-container": bitmap(array(0, [1, 3, 5]))[:-1],
    "bytes-after-end": bitmap(array(0, [1, 3, 5])) + b"\0",
}
"""32-bit bitmaps that break one rule each."""


def add(folder: str, name: str, data: bytes, rows: Iterable[int] | None, writer: str, note: str = "") -> None:
    """Write one file and its entry; rows of None: it has to be refused."""
    file = HERE / folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(data)
    case: dict[str, Any] = {"file": f"{folder}/{name}", "format": folder, "valid": rows is not None, "writer": writer}
    if rows is not None:
        positions = np.fromiter(rows, "<u8")
        case |= {"count": len(positions), "checksum": f"{zlib.crc32(positions.tobytes()):08x}"}
    CASES.append(case | ({"note": note} if note else {}))


def bitmaps(folder: str, wrap: Any) -> None:
    for name, (data, rows) in VALID.items():
        add(folder, f"{name}.bin", wrap(data), rows, LAYOUT)
    for name, data in CORRUPT.items():
        add(folder, f"{name}.bad", wrap(data), None, LAYOUT, name.replace("-", " "))


def frames(folder: str, magic: bytes, other: bytes, vector: bytes) -> None:
    good = frame(magic, vector)
    size = len(vector) + 4
    for name, data in {
        "crc": good[:-1] + bytes([good[-1] ^ 1]),
        "flipped-bit": good[:-6] + bytes([good[-6] ^ 4]) + good[-5:],
        "length-too-large": frame(magic, vector, length=size + 1),
        "length-too-small": frame(magic, vector, length=size - 1),
        "length-zero": frame(magic, vector, length=0),
        "unknown-magic": frame(b"\xd1\xd3\x39\x65", vector),
        "magic-of-another-layout": frame(other, vector),
        "frame-cut": good[:-3],
        "frame-followed": good + b"\0",
        "no-bitmap": framed(magic),
    }.items():
        add(folder, f"{name}.bad", data, None, LAYOUT, name.replace("-", " "))


def keys(folder: str, wrap: Any) -> None:
    one = bitmap(array(0, [5]))
    add(folder, "two-keys.bin", wrap(vector64((0, one), (1, one))), [5, 2**32 + 5], LAYOUT)
    add(folder, "empty-key-between.bin", wrap(vector64((0, one), (1, bitmap()), (2, one))), [5, 2**33 + 5], LAYOUT)
    for name, vector in {
        "bitmaps-not-ascending": vector64((1, one), (0, one)),
        "bitmap-key-twice": vector64((1, one), (1, bitmap(array(0, [6])))),
        "fewer-bitmaps": vector64((0, one), count=2),
        "more-bitmaps": vector64((0, one), (1, one), count=1),
    }.items():
        add(folder, f"{name}.bad", wrap(vector), None, LAYOUT, name.replace("-", " "))


def of_others() -> None:
    for kind, folder, writer in (
        ("iceberg", "iceberg/java-1.12.0", "Iceberg Java 1.12.0"),
        ("roaring64", "roaring/java-1.6.29", "RoaringBitmap (Java) 1.6.29"),
        ("paimon32", "paimon/pypaimon-2.1.0", "pypaimon 2.1.0"),
    ):
        for entry in json.loads((VECTORS / folder / "manifest.json").read_text()):
            source = VECTORS / folder / entry["file"]
            if "ranges" in entry and source.stat().st_size < 2000:
                rows = [row for start, stop in entry["ranges"] for row in range(start, stop)]
                add(
                    kind,
                    f"{writer.split()[0].lower()}-{source.stem}.bin",
                    source.read_bytes(),
                    rows,
                    writer,
                    entry["proves"],
                )
    puffin = (VECTORS / "iceberg/java-1.12.0/one.puffin").read_bytes()
    start = puffin.index(PORTABLE) - 4
    size = int.from_bytes(puffin[start : start + 4], "big") + 8
    blob = puffin[start : start + size]
    (known,) = [case for case in CASES if case["format"] == "iceberg" and (HERE / case["file"]).read_bytes() == blob][
        :1
    ]
    add("puffin", "java-one.bin", puffin, [], "Iceberg Java 1.12.0")
    CASES[-1] |= {name: known[name] for name in ("count", "checksum")}
    for name, bad in {
        "blob-flipped": puffin[: start + 20] + bytes([puffin[start + 20] ^ 1]) + puffin[start + 21 :],
        "no-first-magic": b"PFA2" + puffin[4:],
        "no-last-magic": puffin[:-1] + b"2",
        "footer-cut": puffin[:-40] + puffin[-20:],
        "footer-size": puffin[:-12] + b"\xff\xff\xff\x7f" + puffin[-8:],
        "blob-beyond-file": puffin.replace(b'"offset":4', b'"offset":9'),
        "no-blob": puffin[:-1],
    }.items():
        assert bad != puffin, name
        add("puffin", f"{name}.bad", bad, None, "Iceberg Java 1.12.0, damaged", name.replace("-", " "))
    arrow = (VECTORS / "upstream/lance/deletions/few.arrow").read_bytes()
    truth = json.loads((VECTORS / "upstream/lance/deletions/few.json").read_text())
    add("lance-arrow", "pylance-few.bin", arrow, sorted(truth["first"]), "pylance 14.0.2")
    for name, bad in {"cut": arrow[:-30], "first-magic": b"ARROW2" + arrow[6:], "empty": b""}.items():
        add("lance-arrow", f"{name}.bad", bad, None, "pylance 14.0.2, damaged", name.replace("-", " "))
    for version in ("16.3.4", "17.2.3"):
        data = (VECTORS / f"zap/zapx-{version}/bytes.zap").read_bytes()
        name = f"zapx-{version.split('.')[0]}"
        CASES.append({"file": f"zap/{name}.bin", "format": "zap", "valid": True, "writer": f"zapx {version}"})
        (HERE / "zap").mkdir(exist_ok=True)
        (HERE / "zap" / f"{name}.bin").write_bytes(data)
        damage = {"crc": data[:-1] + bytes([data[-1] ^ 1]), "cut": data[:-5]}
        damage["flipped"] = data[:20] + bytes([data[20] ^ 255]) + data[21:]
        for what, bad in damage.items():
            add("zap", f"{name}-{what}.bad", bad, None, f"zapx {version}, damaged", what)


def mumblings() -> None:
    sample = bytes.fromhex("01030000 0200 01000180 0022 ff")
    add("mumbling", "specification.bin", sample, [0, 34, 511], "the specification's rules, by hand")
    for name, rows in {"empty": [], "dense": range(40, 400), "many": range(0, 60_000, 7)}.items():
        add("mumbling", f"{name}.bin", mumbling.encode(RowSet(rows)), rows, "dvcodec, read by Iceberg Java 1.12.0")
    for name, bad in {
        "version": b"\2" + sample[1:],
        "cardinality": sample[:1] + b"\4" + sample[2:],
        "cut": sample[:-1],
        "followed": sample + b"\0",
        "containers": sample[:4] + b"\3" + sample[5:],
        "positions-not-ascending": sample[:-3] + b"\x22\0\xff",
    }.items():
        add("mumbling", f"{name}.bad", bad, None, "the specification's rules, by hand", name.replace("-", " "))


def main() -> None:
    for folder in HERE.iterdir():
        if folder.is_dir():
            shutil.rmtree(folder)
    bitmaps("roaring32", bytes)
    bitmaps("roaring64", lambda data: vector64((0, data)))
    bitmaps("iceberg", lambda data: frame(PORTABLE, vector64((0, data))))
    bitmaps("delta-native", lambda data: frame(NATIVE, native64(data)))
    bitmaps("paimon32", lambda data: frame(PAIMON, data))
    keys("roaring64", bytes)
    keys("iceberg", lambda vector: frame(PORTABLE, vector))
    one = VALID["array"][0]
    frames("iceberg", PORTABLE, PAIMON, vector64((0, one)))
    frames("delta-native", NATIVE, PAIMON, native64(one))
    frames("paimon32", PAIMON, PORTABLE, one)
    add("iceberg", "key-too-high.bad", frame(PORTABLE, vector64((2**31 - 1, one))), None, LAYOUT, "key too high")
    of_others()
    mumblings()
    manifest = {
        "version": 1,
        "licence": "Apache-2.0; the files of other programs are their output, see README.md",
        "checksum": "CRC-32 of the positions, ascending, as little-endian 64-bit integers",
        "cases": CASES,
    }
    (HERE / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main()

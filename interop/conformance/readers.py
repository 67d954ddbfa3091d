"""Decoders for ``dvcodec conformance``: ``dvcodec conformance "python interop/conformance/readers.py NAME"``.

Each reads a file of the corpus with a library as it is released. One that reads vectors only as part of a table gets a
table of one data file with `ROWS` rows. See the README beside this file.
"""

from __future__ import annotations

import importlib
import json
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

HERE = Path(__file__).parent
TESTS = HERE.parents[1] / "tests"
ROWS = 1 << 18
HIGH_KEY = 1 << 12
SCRATCH = tempfile.TemporaryDirectory(prefix="conformance-")
FOLDER = Path(SCRATCH.name)
Read = Callable[[bytes], Iterable[int]]


class Skip(Exception):
    """The library cannot be asked about this file."""


def answer(rows: Any) -> str:
    positions = np.sort(np.asarray(rows, "<i8"))
    return f"ok {len(positions)} {zlib.crc32(positions.astype('<u8').tobytes()):08x}"


def refused(error: object) -> str:
    return f"error {' '.join(str(error).split())[:300] or 'no message'}"


def serve(readers: dict[str, Read]) -> None:
    """Answer one question after the other."""
    for line in sys.stdin:
        name, path = line.rstrip("\n").split("\t")
        if name not in readers:
            print("skip", flush=True)
            continue
        try:
            print(answer(readers[name](Path(path).read_bytes())), flush=True)
        except Skip:
            print("skip", flush=True)
        except KeyboardInterrupt:
            raise
        except BaseException as err:  # panics of Rust are no Exceptions
            print(refused(f"{type(err).__name__}: {err}"), flush=True)


def questions() -> list[tuple[str, Path]]:
    """Read all questions, for programs that take all files at once."""
    lines = (line.rstrip("\n").split("\t") for line in sys.stdin)
    return [(name, Path(path)) for name, path in lines]


def in_one_go(ask: Callable[[str, list[Path]], Iterable[str]], names: Iterable[str]) -> None:
    """Answer all questions of each format together."""
    asked = questions()
    answers = ["skip"] * len(asked)
    for name in names:
        chosen = [i for i, (kind, _) in enumerate(asked) if kind == name]
        for i, text in zip(chosen, ask(name, [asked[i][1] for i in chosen]) if chosen else (), strict=True):
            answers[i] = text
    print("\n".join(answers))


def within(data: bytes) -> bytes:
    """Return the vector if all its positions are rows of the table, or it is corrupt."""
    import dvcodec

    try:
        rows = dvcodec.decode(data)
    except dvcodec.DecodeError:
        return data
    if rows and rows.max >= ROWS:
        raise Skip
    return data


def has_high_key(frame: bytes) -> bool:
    """Whether the first key is one up to which some readers fill an array."""
    return any(frame[8:16]) and int.from_bytes(frame[16:20], "little") > HIGH_KEY


# ---------------------------------------------------------------------- Python


def dvcodec_itself() -> None:
    import dvcodec

    def read(data: bytes) -> Iterable[int]:
        return dvcodec.RowSet().union(*dvcodec.read_rows(data).values()).to_numpy()

    def segment(data: bytes) -> Iterable[int]:
        for finding in dvcodec.verify(data).findings:
            raise ValueError(finding)
        return []

    names = ("iceberg", "delta-native", "paimon32", "roaring32", "roaring64", "mumbling", "puffin", "lance-arrow")
    serve({**dict.fromkeys(names, read), "zap": segment})


def pyroaring() -> None:
    from pyroaring import BitMap, BitMap64

    serve(
        {
            "roaring32": lambda data: list(BitMap.deserialize(data)),
            "roaring64": lambda data: list(BitMap64.deserialize(data)),
        }
    )


def pyiceberg() -> None:
    import warnings

    from pyiceberg.table.puffin import PuffinFile

    warnings.simplefilter("ignore")

    def puffin(data: bytes) -> Iterable[int]:
        return [row for rows in PuffinFile(data).to_vector().values() for row in rows.to_pylist()]

    def blob(data: bytes) -> Iterable[int]:
        if has_high_key(data):
            raise Skip
        payload = {
            "blobs": [
                {
                    "type": "deletion-vector-v1",
                    "fields": [2147483546],
                    "snapshot-id": -1,
                    "sequence-number": -1,
                    "offset": 4,
                    "length": len(data),
                    "properties": {"referenced-data-file": "a.parquet", "cardinality": "1"},
                }
            ]
        }
        text = json.dumps(payload).encode()
        return puffin(b"PFA1" + data + b"PFA1" + text + struct.pack("<I", len(text)) + bytes(4) + b"PFA1")

    serve({"puffin": puffin, "iceberg": blob})


def delta_table(root: Path, data: bytes) -> None:
    """Write a Delta table of one data file, whose rows are numbered, with this vector."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (root / "_delta_log").mkdir(parents=True, exist_ok=True)
    if not (root / "a.parquet").exists():
        pq.write_table(pa.table({"id": np.arange(ROWS)}), root / "a.parquet")
    (root / "d.bin").write_bytes(b"\1" + data)
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    metadata = {
        "id": "00000000-0000-0000-0000-000000000001",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(schema),
        "partitionColumns": [],
        "configuration": {"delta.enableDeletionVectors": "true"},
        "createdTime": 0,
    }
    add = {
        "path": "a.parquet",
        "partitionValues": {},
        "size": (root / "a.parquet").stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps({"numRecords": ROWS}),
        "deletionVector": {
            "storageType": "p",
            "pathOrInlineDv": (root / "d.bin").as_uri(),
            "offset": 1,
            "sizeInBytes": len(data) - 8,
            "cardinality": 1,
        },
    }
    actions = [{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}, {"metaData": metadata}]
    lines = [json.dumps(action) for action in (*actions, {"add": add})]
    (root / "_delta_log" / f"{0:020}.json").write_text("\n".join(lines) + "\n")


def all_but(live: Any) -> Any:
    gone = np.ones(ROWS, np.bool_)
    gone[np.asarray(live)] = False
    return np.flatnonzero(gone)


def deltalake() -> None:
    import pyarrow as pa
    from deltalake import DeltaTable

    def read(data: bytes) -> Any:
        delta_table(FOLDER, within(data))
        kept = [keep for batch in DeltaTable(FOLDER).deletion_vectors() for keep in pa.record_batch(batch)[1]]
        return [row for keep in kept for row in np.flatnonzero(~np.asarray(keep.values))]

    serve({"iceberg": read, "delta-native": read})


def polars() -> None:
    import polars as pl

    def read(data: bytes) -> Any:
        delta_table(FOLDER, within(data))
        return all_but(pl.read_delta(str(FOLDER))["id"].to_numpy())

    serve({"iceberg": read, "delta-native": read})


def duckdb() -> None:
    """In two environments: tables are written here, and read in that of interop/duckdb."""
    python, reader = HERE.parent / "duckdb" / ".venv" / "bin" / "python", HERE.parent / "duckdb" / "read.py"

    def read(data: bytes) -> Any:
        delta_table(FOLDER, within(data))
        done = subprocess.run(
            [python, reader, "delta", str(FOLDER), "SELECT id FROM {table}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ValueError(done.stderr.strip().splitlines()[-1])
        return all_but([json.loads(line)[0] for line in done.stdout.splitlines()])

    serve({"iceberg": read, "delta-native": read})


def pylance() -> None:
    import pyarrow as pa

    lance: Any = importlib.import_module("lance")
    files = {}
    for kind, count in (("lance-arrow", 10), ("roaring32", 6000)):
        path = str(FOLDER / kind)
        table = pa.table({"i": np.arange(ROWS, dtype=np.int32)})
        lance.write_dataset(table, path).delete(f"i % {ROWS // count} = 0")
        (files[kind],) = Path(path, "_deletions").iterdir()

    def reader(kind: str) -> Read:
        def read(data: bytes) -> Any:
            files[kind].write_bytes(within(data))
            (fragment,) = lance.dataset(str(FOLDER / kind)).get_fragments()
            live = fragment.to_table(columns=[], with_row_address=True)["_rowaddr"].to_numpy()
            return all_but(live & np.uint64(2**32 - 1))

        return read

    serve({kind: reader(kind) for kind in files})


def pypaimon() -> None:
    """In the environment of interop/pypaimon."""
    sys.path.insert(0, str(HERE.parent / "pypaimon"))
    drive: Any = importlib.import_module("drive")

    def read(data: bytes) -> Iterable[int]:
        where = SimpleNamespace(dv_index_path="x", offset=0, length=len(data) - 8)
        return list(drive.DeletionVector.read(drive._OneFile(data), where).bit_map())

    serve({"paimon32": read})


# ---------------------------------------------------------------------- Java and Go


def driver() -> Any:
    sys.path.insert(0, str(TESTS))
    return importlib.import_module("interop.driver")


def decoded(program: Any, kinds: dict[str, str]) -> None:
    """Have a Java program decode by its command ``decode``; `kinds` maps formats to its names."""

    def ask(name: str, paths: list[Path]) -> Iterator[str]:
        counts = [-1] * len(paths) if kinds[name] == "iceberg" else None
        for one in program.decode(kinds[name], [path.read_bytes() for path in paths], counts):
            yield refused(one.error) if one.positions is None else answer(one.positions)

    in_one_go(ask, kinds)


def java() -> None:
    """RoaringBitmap and Iceberg."""
    program = driver().Java(FOLDER)

    def ask(name: str, paths: list[Path]) -> Iterator[str]:
        if name == "puffin":
            for found in program.run_json("puffin-read", *paths):
                errors = [one["error"] for one in (found, *found.get("blobs", ())) if "error" in one]
                rows = [row for blob in found.get("blobs", ()) for row in blob.get("positions", ())]
                yield refused(errors[0]) if errors else answer(rows)
            return
        counts = [-1] * len(paths) if name == "iceberg" else None
        for one in program.decode(name, [path.read_bytes() for path in paths], counts):
            yield refused(one.error) if one.positions is None else answer(one.positions)

    in_one_go(ask, ("iceberg", "puffin", "roaring32", "roaring64", "mumbling"))


def delta_kernel() -> None:
    program = driver().Java(FOLDER)

    def ask(name: str, paths: list[Path]) -> Iterator[str]:
        descriptors = []
        for i, path in enumerate(paths):
            data = path.read_bytes()
            if name == "iceberg" and has_high_key(data):
                data = b""
            (FOLDER / f"{i}.bin").write_bytes(b"\1" + data)
            place = {"storageType": "p", "pathOrInlineDv": (FOLDER / f"{i}.bin").as_uri(), "offset": 1}
            descriptors.append({**place, "table_root": FOLDER.as_uri(), "sizeInBytes": len(data) - 8, "cardinality": 1})
        (FOLDER / "descriptors.json").write_text(json.dumps(descriptors))
        for path, found in zip(paths, program.run_json("delta-read", FOLDER / "descriptors.json"), strict=True):
            if name == "iceberg" and has_high_key(path.read_bytes()):
                yield "skip"
            else:
                yield refused(found["error"]) if "error" in found else answer(found["positions"])

    in_one_go(ask, ("iceberg", "delta-native"))


def paimon_java() -> None:
    decoded(driver().JavaPaimon("newest", FOLDER), {"paimon32": "paimon32", "iceberg": "paimon64"})


def zapx() -> None:
    peers = driver()

    def ask(name: str, paths: list[Path]) -> Iterator[str]:
        del name
        for path in paths:
            version = int.from_bytes(path.read_bytes()[-8:-4], "big")
            if version not in range(11, 18):
                yield refused("no version of zapx")  # bleve chooses the reader by the index's metadata
                continue
            command = {"op": "dump", "path": str(path), "out": str(FOLDER / "dump"), "true_counts": True}
            (found,) = peers.GoProgram(f"zap{version}", FOLDER).answers([command])
            yield refused(found["error"]) if "error" in found else answer([])

    in_one_go(ask, ("zap",))


READERS: dict[str, Callable[[], None]] = {
    "dvcodec": dvcodec_itself,
    "pyroaring": pyroaring,
    "pyiceberg": pyiceberg,
    "deltalake": deltalake,
    "polars": polars,
    "duckdb": duckdb,
    "pylance": pylance,
    "pypaimon": pypaimon,
    "java": java,
    "delta-kernel": delta_kernel,
    "paimon-java": paimon_java,
    "zapx": zapx,
}


def main(arguments: Sequence[str]) -> None:
    if len(arguments) != 1 or arguments[0] not in READERS:
        sys.exit(f"usage: readers.py {'|'.join(READERS)}")
    READERS[arguments[0]]()


if __name__ == "__main__":
    main(sys.argv[1:])

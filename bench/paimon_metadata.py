"""Paimon tables of many data files: `python bench/paimon_metadata.py [FILES] [--rounds 3]`.

An append table of 300,000 data files in 30 manifests, partitioned by day; a third of the data files have a vector of
three rows, 200 of them in each index file. The data files have the recorded size and no contents, which nothing here
reads. Opening is processor time after the imports, as is pypaimon's plan of a scan (once, if ``make interop-pypaimon``
has built its environment); the commands ``table``, ``log``, ``audit`` and ``report`` are measured whole.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from dvcodec import RowSet
from dvcodec.core import avro
from dvcodec.paimon import IndexFile, IndexManifestEntry, write_deletion_vectors, write_index_manifest
from report import machine
from table_metadata import FILES, in_process, show, whole

PER_MANIFEST, PER_CONTAINER, ROWS = 10_000, 200, 1000
COLUMNS = [("id", "BIGINT"), ("name", "STRING"), ("value", "DOUBLE"), ("day", "STRING")]
PYPAIMON = Path(__file__).resolve().parents[1] / "interop/pypaimon/.venv/bin/python"
PLAN = """
import json, resource, sys, time
from pypaimon import CatalogFactory
table = CatalogFactory.create({"warehouse": sys.argv[1]}).get_table("db.table")
start = time.process_time()
files = sum(len(split.files) for split in table.new_read_builder().new_scan().plan().splits())
print(json.dumps([time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, files]))
"""


def optional(kind: object) -> dict[str, Any]:
    return {"type": ["null", kind], "default": None}


def fields(*named: tuple[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": name, **(kind if isinstance(kind, dict) and "default" in kind else {"type": kind})}
        for name, kind in named
    ]


def record(name: str, *named: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "org.apache.paimon.avro.generated", "fields": fields(*named)}


def statistics(name: str) -> dict[str, Any]:
    counts = optional({"type": "array", "items": ["null", "long"]})
    return record(f"record_{name}", ("_MIN_VALUES", "bytes"), ("_MAX_VALUES", "bytes"), ("_NULL_COUNTS", counts))


TEXTS = {"type": "array", "items": "string"}
DATA_FILE = record(
    "record__FILE",
    ("_FILE_NAME", "string"),
    ("_FILE_SIZE", "long"),
    ("_ROW_COUNT", "long"),
    ("_MIN_KEY", "bytes"),
    ("_MAX_KEY", "bytes"),
    ("_KEY_STATS", statistics("KEY_STATS")),
    ("_VALUE_STATS", statistics("VALUE_STATS")),
    ("_MIN_SEQUENCE_NUMBER", "long"),
    ("_MAX_SEQUENCE_NUMBER", "long"),
    ("_SCHEMA_ID", "long"),
    ("_LEVEL", "int"),
    ("_EXTRA_FILES", TEXTS),
    ("_CREATION_TIME", optional({"type": "long", "logicalType": "timestamp-millis"})),
    ("_DELETE_ROW_COUNT", optional("long")),
    ("_EMBEDDED_FILE_INDEX", optional("bytes")),
    ("_FILE_SOURCE", optional("int")),
    ("_VALUE_STATS_COLS", optional(TEXTS)),
    ("_EXTERNAL_PATH", optional("string")),
    ("_FIRST_ROW_ID", optional("long")),
    ("_WRITE_COLS", optional(TEXTS)),
)
NUMBERS = [(name, "int") for name in ("_VERSION", "_KIND", "_BUCKET", "_TOTAL_BUCKETS")]
ENTRY = record("record", *NUMBERS[:2], ("_PARTITION", "bytes"), *NUMBERS[2:], ("_FILE", DATA_FILE))
LIST = record(
    "record",
    ("_VERSION", "int"),
    ("_FILE_NAME", "string"),
    *((name, "long") for name in ("_FILE_SIZE", "_NUM_ADDED_FILES", "_NUM_DELETED_FILES")),
    ("_PARTITION_STATS", statistics("PARTITION_STATS")),
    ("_SCHEMA_ID", "long"),
)
NO_FIELDS = bytes(12)


def row(*values: float | str) -> bytes:
    """Serialize a row, as Java's ``BinaryRow``: numbers, and text."""
    fixed, rest = bytearray(8), b""
    start = 8 + 8 * len(values)
    for value in values:
        if isinstance(value, str):
            text = value.encode()
            if len(text) < 8:
                fixed += text.ljust(7, b"\0") + bytes([0x80 | len(text)])
                continue
            fixed += len(text).to_bytes(4, "little") + (start + len(rest)).to_bytes(4, "little")
            rest += text.ljust(-(-len(text) // 8) * 8, b"\0")
        else:
            fixed += struct.pack("<q" if isinstance(value, int) else "<d", value)
    return len(values).to_bytes(4, "big") + bytes(fixed) + rest


def day_of(number: int) -> str:
    return f"2026-{number % 12 + 1:02}-{number % 28 + 1:02}"


def data_file(number: int) -> dict[str, Any]:
    """Return the entry of a data file, as Java writes it."""
    day, first = day_of(number), number * ROWS
    least, most = row(first, f"a{number}", 0.5, day), row(first + ROWS - 1, f"z{number}", 99.5, day)
    none = {"_MIN_VALUES": NO_FIELDS, "_MAX_VALUES": NO_FIELDS, "_NULL_COUNTS": []}
    file = {
        "_FILE_NAME": f"data-{uuid.UUID(int=number)}-0.parquet",
        "_FILE_SIZE": 20_000 + number,
        "_ROW_COUNT": ROWS,
        "_MIN_KEY": NO_FIELDS,
        "_MAX_KEY": NO_FIELDS,
        "_KEY_STATS": none,
        "_VALUE_STATS": {"_MIN_VALUES": least, "_MAX_VALUES": most, "_NULL_COUNTS": [0] * len(COLUMNS)},
        "_MIN_SEQUENCE_NUMBER": first,
        "_MAX_SEQUENCE_NUMBER": first + ROWS - 1,
        "_SCHEMA_ID": 0,
        "_LEVEL": 0,
        "_EXTRA_FILES": [],
        "_CREATION_TIME": 1_700_000_000_000 + number,
        "_DELETE_ROW_COUNT": 0,
        "_FILE_SOURCE": 0,
    }
    return {"_VERSION": 2, "_KIND": 0, "_PARTITION": row(day), "_BUCKET": 0, "_TOTAL_BUCKETS": -1, "_FILE": file}


def vectors(folder: Path, files: int) -> Iterator[IndexManifestEntry]:
    """Write the index files, and yield their entries; each has vectors of one partition."""
    by_day: dict[str, list[str]] = {}
    for number in range(0, files, 3):
        by_day.setdefault(day_of(number), []).append(f"data-{uuid.UUID(int=number)}-0.parquet")
    count = 0
    for day, names in by_day.items():
        rest = iter(names)
        while some := list(islice(rest, PER_CONTAINER)):
            path = folder / f"index/index-{uuid.UUID(int=count)}-0"
            written = write_deletion_vectors(path, dict.fromkeys(some, RowSet([count % 997, 998, 999])))
            yield IndexManifestEntry.from_index_file(IndexFile.of(written), partition=row(day), bucket=0)
            count += 1


def write(path: Path, schema: dict[str, Any], records: Iterable[dict[str, Any]]) -> int:
    data = avro.encode(schema, records, codec="zstandard")
    path.write_bytes(data)
    return len(data)


def make(folder: Path, files: int) -> None:
    """Write the table: two snapshots, of which the second has the vectors."""
    for name in ("manifest", "schema", "snapshot", "index"):
        (folder / name).mkdir(parents=True)
    named = [{"id": number, "name": name, "type": kind} for number, (name, kind) in enumerate(COLUMNS)]
    options = {"bucket": "-1", "deletion-vectors.enabled": "true"}
    schema: dict[str, Any] = {"version": 3, "id": 0, "fields": named, "highestFieldId": 3, "partitionKeys": ["day"]}
    schema |= {"primaryKeys": [], "options": options, "comment": None, "timeMillis": 1}
    (folder / "schema/schema-0").write_text(json.dumps(schema))
    none = {"_MIN_VALUES": NO_FIELDS, "_MAX_VALUES": NO_FIELDS, "_NULL_COUNTS": []}
    listed: list[dict[str, Any]] = []
    for first in range(0, files, PER_MANIFEST):
        numbers = range(first, min(first + PER_MANIFEST, files))
        one: dict[str, Any] = {"_VERSION": 2, "_FILE_NAME": f"manifest-{uuid.UUID(int=0)}-{first // PER_MANIFEST}"}
        size = write(folder / "manifest" / one["_FILE_NAME"], ENTRY, map(data_file, numbers))
        one |= {"_FILE_SIZE": size, "_NUM_ADDED_FILES": len(numbers), "_NUM_DELETED_FILES": 0}
        listed.append(one | {"_PARTITION_STATS": none, "_SCHEMA_ID": 0})
    for name, records in (("none", []), ("all", listed)):
        write(folder / f"manifest/manifest-list-{name}", LIST, records)
    write_index_manifest(folder / "manifest/index-manifest-0", vectors(folder, files))
    for number in (1, 2):
        lists = ("none", "all") if number == 1 else ("all", "none")
        snapshot: dict[str, Any] = {
            "version": 3,
            "id": number,
            "schemaId": 0,
            "commitUser": "bench",
            "commitIdentifier": number,
        }
        snapshot |= dict(
            zip(("baseManifestList", "deltaManifestList"), (f"manifest-list-{one}" for one in lists), strict=True)
        )
        snapshot |= {"commitKind": ("APPEND", "OVERWRITE")[number - 1], "timeMillis": 1_700_000_000_000 + number}
        snapshot |= {"totalRecordCount": files * ROWS, "deltaRecordCount": files * ROWS if number == 1 else 0}
        snapshot |= {"indexManifest": "index-manifest-0"} if number == 2 else {}
        (folder / f"snapshot/snapshot-{number}").write_text(json.dumps(snapshot))
    (folder / "snapshot/LATEST").write_text("2")
    for number in range(files):
        path = folder / f"day={day_of(number)}/bucket-0/data-{uuid.UUID(int=number)}-0.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.truncate(20_000 + number)


def plan(warehouse: Path) -> tuple[float, float, str]:
    """Return the seconds of pypaimon's plan, the peak of memory in MB, and the data files found."""
    command = [str(PYPAIMON), "-c", PLAN, str(warehouse)]
    seconds, peak, found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return seconds, peak, f"{found:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="?", type=int, default=FILES)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "db.db" / "table"
        make(folder, options.files)
        if PYPAIMON.exists():
            show("pypaimon", [plan(Path(place))])
        show("open", [in_process("open", folder) for _ in range(options.rounds)])
        for name in ("table", "log", "audit", "report"):
            show(name, [whole(name, folder) for _ in range(options.rounds)])


if __name__ == "__main__":
    main()

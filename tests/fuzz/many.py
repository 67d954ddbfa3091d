"""Tables of as many data files as kilobytes can name, and what commands make of files: entries of the search for costs.

An input is the manifest or checkpoint of the table, or the file that a command is called with.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from dvcodec import DecodeError, DvcodecError, RowSet, delta, iceberg
from dvcodec.cli.app import build
from dvcodec.core import avro
from dvcodec.core.cursor import Cursor
from dvcodec.tables import Table, open_table
from dvcodec.tables.auditing import audit
from dvcodec.tables.changes import history
from fuzz import structures
from fuzz.target import Target

Make = Callable[..., Path]
_NAMED = 3500


def _records(path: Path) -> tuple[Any, list[dict[str, Any]]]:
    file = avro.decode(Cursor(path.read_bytes()))
    return file.schema, list(file.records())


def _iceberg(folder: Path, count: int) -> Path:
    from samples.iceberg_table import Commit, build_iceberg

    build_iceberg(folder, Commit(data={f"{i:x}": 20 for i in range(count)}), parquet=False)
    (manifest,) = (folder / "metadata").glob("manifest-*")
    return manifest


def _iceberg_padded(folder: Path, count: int) -> Path:
    """The bytes of the header allow data files, too."""
    manifest = _iceberg(folder, count)
    return _pad(manifest, *_records(manifest), size=63_000)


def _pad(manifest: Path, schema: Any, records: list[dict[str, Any]], *, size: int) -> Path:
    room = size - len(avro.encode(schema, records, validate=False))
    manifest.write_bytes(avro.encode(schema, records, validate=False, metadata={"x": "a" * max(room, 0)}))
    return manifest


def _iceberg_named(folder: Path, count: int) -> Path:
    """One file of position deletes, of 8 kB, names thousands of data files, whatever their number."""
    import pyarrow.parquet as pq

    from samples.iceberg_table import Commit, build_iceberg

    names = [f"{i:x}" for i in range(max(count, _NAMED))]
    commit = Commit(data=dict.fromkeys(names, 20), deletes=[dict.fromkeys(names[:_NAMED], RowSet([1]))], scope=None)
    build_iceberg(folder, commit, parquet=False, location="s3://lake/t")
    (deletes,) = (folder / "data").iterdir()
    pq.write_table(pq.read_table(deletes), deletes, compression="zstd", compression_level=19)
    for path in (folder / "metadata").glob("manifest-*"):
        schema, records = _records(path)
        for record in records:
            if record["data_file"]["content"]:
                record["data_file"]["file_size_in_bytes"] = deletes.stat().st_size
                path.write_bytes(avro.encode(schema, records, validate=False))
            else:
                manifest, named = path, records[:count]
    return _pad(manifest, schema, named, size=50_000)


def _iceberg_deletes(folder: Path, count: int) -> Path:
    """Files of position deletes, none of which is there; the bytes of the header allow them, too."""
    from samples.iceberg_table import Commit, build_iceberg

    build_iceberg(folder, Commit(data={"a": 20}, deletes=[{"a": RowSet([1])}]), parquet=False)
    for manifest in (folder / "metadata").glob("manifest-*"):
        schema, (entry,) = _records(manifest)
        file = entry["data_file"]
        if file["content"]:
            deletes = [entry | {"data_file": file | {"file_path": f"{file['file_path']}{i:x}"}} for i in range(count)]
            return _pad(manifest, schema, deletes, size=60_000)
    raise AssertionError("a table without deletes")


def _iceberg_vectors(folder: Path, count: int, *, step: int = 1) -> Path:
    from samples.iceberg_table import Commit, build_iceberg

    build_iceberg(folder, Commit(data={"a": 20}, vectors={"a": RowSet([1])}), parquet=False)
    for manifest in (folder / "metadata").glob("manifest-*"):
        schema, (entry,) = _records(manifest)
        file = entry["data_file"]
        if file["content"]:
            files = (
                file | {"content_offset": 4 + step * i, "referenced_data_file": f"{file['referenced_data_file']}{i:x}"}
                for i in range(count)
            )
            manifest.write_bytes(avro.encode(schema, (entry | {"data_file": one} for one in files), validate=False))
            return manifest
    raise AssertionError("a table without deletes")


def _paimon(folder: Path, count: int) -> Path:
    import pyarrow as pa

    from samples.paimon_table import PaimonFile, build_paimon

    build_paimon(folder, [(0, "id", "BIGINT")], [[PaimonFile("a.parquet", pa.table({"id": [1, 2]}))]])
    manifest = folder / "manifest/manifest-1-0"
    schema, (entry,) = _records(manifest)
    entries = (entry | {"_FILE": entry["_FILE"] | {"_FILE_NAME": f"{i:x}.parquet"}} for i in range(count))
    manifest.write_bytes(avro.encode(schema, entries, validate=False))
    return manifest


def _paimon_vectors(folder: Path, count: int, *, step: int = 1) -> Path:
    import pyarrow as pa

    from samples.paimon_table import PaimonFile, build_paimon

    file = PaimonFile("a.parquet", pa.table({"id": [1, 2]}), deleted=[0])
    build_paimon(folder, [(0, "id", "BIGINT")], [[file]])
    (manifest,) = (path for path in (folder / "manifest").iterdir() if "index" in path.name)
    schema, (entry,) = _records(manifest)
    (vector,) = entry["_DELETIONS_VECTORS_RANGES"]
    size = 1000  # the limit on records is not what is looked for
    entries = (
        entry
        | {
            "_DELETIONS_VECTORS_RANGES": [
                vector | {"f0": f"{i:x}", "f1": 1 + step * i} for i in range(start, min(start + size, count))
            ]
        }
        for start in range(0, count, size)
    )
    manifest.write_bytes(avro.encode(schema, entries, validate=False))
    return manifest


def _delta_vectors(folder: Path, count: int, *, step: int = 1) -> Path:
    return _delta(folder, count, step=step)


def _delta(folder: Path, count: int, *, step: int | None = None) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from samples.delta_log import empty_table

    empty_table(folder)
    log = folder / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    protocol, metadata = (next(one[name] for one in actions if name in one) for name in ("protocol", "metaData"))
    texts = pa.list_(pa.string())
    entries = pa.map_(pa.string(), pa.string())
    kinds = {
        "protocol": {"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32(), "readerFeatures": texts,
                     "writerFeatures": texts},
        "metaData": {"id": pa.string(), "format": pa.struct([("provider", pa.string())]), "schemaString": pa.string(),
                     "partitionColumns": texts, "configuration": entries},
        "add": {"path": pa.string(), "size": pa.int64(), "dataChange": pa.bool_(), "partitionValues": entries},
    }  # fmt: skip
    metadata["configuration"] = list(metadata["configuration"].items())
    adds: list[dict[str, Any]] = [
        {"path": f"{i:05x}", "size": 1, "dataChange": True, "partitionValues": []} for i in range(count)
    ]
    if step is not None:
        protocol |= {"minReaderVersion": 3, "minWriterVersion": 7}
        protocol |= {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
        kinds["add"]["deletionVector"] = pa.struct(
            [("storageType", pa.string()), ("pathOrInlineDv", pa.string()), ("offset", pa.int32()),
             ("sizeInBytes", pa.int32()), ("cardinality", pa.int64())]
        )  # fmt: skip
        path = folder / "v.bin"
        path.write_bytes(b"\1" + delta.encode(RowSet([1])))
        vector = {"storageType": "p", "pathOrInlineDv": f"file://{path}", "sizeInBytes": 34, "cardinality": 1}
        adds = [add | {"deletionVector": vector | {"offset": 1 + step * i}} for i, add in enumerate(adds)]
    rows: dict[str, list[Any]] = {
        "protocol": [protocol, None, *[None] * count],
        "metaData": [None, metadata, *[None] * count],
        "add": [None, None, *adds],
    }
    checkpoint = log / f"{0:020}.checkpoint.parquet"
    columns = {name: pa.array(values, pa.struct(kinds[name].items())) for name, values in rows.items()}
    pq.write_table(pa.table(columns), checkpoint, compression="zstd", compression_level=19)
    (log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": count + 2}))
    return checkpoint


def snapshots_without_parents(folder: Path, count: int, *, snapshots: int = 200, make: Make = _iceberg) -> Path:
    """Snapshots whose parents are gone, each of the same data files: all are added by each."""
    manifest = make(folder, count)
    _snapshots(folder, snapshots, turns=False)
    return manifest


def snapshots_by_turns(folder: Path, count: int, *, snapshots: int = 200, make: Make = _iceberg) -> Path:
    """Snapshots that have all data files and none by turns."""
    manifest = make(folder, count)
    _snapshots(folder, snapshots, turns=True)
    return manifest


def _snapshots(folder: Path, count: int, *, turns: bool) -> None:
    (path,) = (folder / "metadata").glob("*.metadata.json")
    metadata = json.loads(path.read_text())
    one = metadata["snapshots"][-1]
    stored = Path(one["manifest-list"])
    schema, manifests = _records(stored)
    lists = [stored.with_name(f"list-{i}.avro") for i in range(2)]
    for i, some in enumerate([manifests, [] if turns else manifests]):
        lists[i].write_bytes(avro.encode(schema, some, validate=False))
    metadata["snapshots"] = [
        one | {"snapshot-id": 1 + i, "manifest-list": str(lists[i % 2]), "summary": {"operation": "append"}}
        | ({} if turns else {"parent-snapshot-id": 10**6})
        for i in range(count)
    ]  # fmt: skip
    metadata |= {"current-snapshot-id": count - count % 2 - 1, "refs": {}, "snapshot-log": []}
    path.unlink()
    (folder / "metadata/v1.gz.metadata.json").write_bytes(gzip.compress(json.dumps(metadata).encode()))


def _iceberg_numbers(folder: Path, count: int, *, snapshots: int = 30) -> Path:
    """Snapshots whose lists give one manifest other numbers: it is decoded for each."""
    manifest = _iceberg(folder, count)
    _snapshots(folder, snapshots, turns=False)
    path = folder / "metadata/v1.gz.metadata.json"
    metadata = json.loads(gzip.decompress(path.read_bytes()))
    schema, (listed,) = _records(folder / "metadata/list-0.avro")
    for i, one in enumerate(metadata["snapshots"]):
        own = folder / f"metadata/numbers-{i}.avro"
        own.write_bytes(avro.encode(schema, [listed | {"sequence_number": i}], validate=False))
        one |= {"manifest-list": str(own)}
    path.write_bytes(gzip.compress(json.dumps(metadata).encode()))
    return manifest


def _paimon_by_turns(folder: Path, count: int, *, snapshots: int = 80, make: Make = _paimon) -> Path:
    """Snapshots that have all data files or vectors and none by turns."""
    manifest = make(folder, count)
    state = json.loads((folder / "snapshot/snapshot-1").read_text())
    state = {name: value for name, value in state.items() if value is not None}
    schema, _ = _records(folder / "manifest" / state["deltaManifestList"])
    none = folder / "manifest/manifest-list-none"
    none.write_bytes(avro.encode(schema, [], validate=False))
    bare = state | {"baseManifestList": none.name, "deltaManifestList": none.name}
    bare.pop("indexManifest", None)
    for i in range(snapshots):
        own = (bare if i % 2 else state) | {"id": 1 + i}
        (folder / f"snapshot/snapshot-{1 + i}").write_text(json.dumps(own, separators=(",", ":")))
    (folder / "snapshot/LATEST").write_text(f"{snapshots - 1 + snapshots % 2}")
    return manifest


def _delta_sidecar(folder: Path, count: int, *, versions: int = 40, removed: bool = False) -> Path:
    """Versions without commits: checkpoints that share a sidecar, of data files that are there or `removed`."""
    import pyarrow.parquet as pq

    checkpoint = _delta(folder, count)
    log = checkpoint.parent
    sidecar = log / "_sidecars/s.parquet"
    sidecar.parent.mkdir()
    adds = pq.read_table(checkpoint).slice(2).select(["add"])
    adds = adds.rename_columns(["remove"]) if removed else adds
    pq.write_table(adds, sidecar, compression="zstd", compression_level=19)
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    features = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}
    top = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        *(one for one in actions if "metaData" in one),
        {"sidecar": {"path": sidecar.name, "sizeInBytes": sidecar.stat().st_size, "modificationTime": 1}},
    ]
    for path in (path for path in log.iterdir() if path.is_file()):
        path.unlink()
    for version in range(0, 2 * versions, 2):  # with gaps: none follows another one
        lines = map(json.dumps, [*top, {"checkpointMetadata": {"version": version}}])
        (log / f"{version:020}.checkpoint.{UUID(int=1)}.json").write_text("\n".join(lines))
    return sidecar


TABLES: dict[str, Make] = {
    "delta": _delta,
    "delta-vectors": _delta_vectors,
    "iceberg": _iceberg,
    "iceberg-deletes": _iceberg_deletes,
    "iceberg-named": _iceberg_named,
    "iceberg-padded": _iceberg_padded,
    "iceberg-vectors": _iceberg_vectors,
    "paimon": _paimon,
    "paimon-vectors": _paimon_vectors,
}
"""Of data files that are not there; or of vectors that are not where the metadata says, in a file that is."""
_VECTORS = ("file of vectors", "vector", "puffin footer", "lance deletions")
_SEGMENTS = ("zap fields", "zap postings", "zap stored", "zap keys", "zap full fields")
COMMANDS = {
    "manifest": ("paimon index manifest", "vectors of a paimon index manifest", "lance manifest"),
    "manifest --json": ("paimon index manifest", "vectors of a paimon index manifest", "lance manifest"),
    "inspect --json": (*_VECTORS, "zap fields"),
    "stats --json": _VECTORS,
    "ranges": _VECTORS,
    "ranges --json": _VECTORS,
    "diff --limit 1000000 OLD FILE": _VECTORS,
    "convert --to blob -o OUT": ("vector", "lance deletions"),
    "merge --data-file a -o OUT FILE": _VECTORS,
    "rewrite-paths --from a --to b -o OUT": ("puffin footer",),
    "manifest --check": ("lance ranges", "lance holes", "lance far apart"),
    "verify": (*_VECTORS, *_SEGMENTS),
    "verify --json": ("puffin vectors", "puffin properties"),
    "zap fields --no-checksum --json": _SEGMENTS,
    "zap terms --no-checksum --json FILE t": _SEGMENTS,
    "zap stored --no-checksum --json": _SEGMENTS,
    "zap merge --no-checksum -o OUT FILE FILE": _SEGMENTS,
}
"""Commands, and the files of `limits.test_work` and `fuzz.costly` that they are called with, as FILE or at the end.

OLD is a vector of one row, OUT a file or folder that is not there.
"""
HISTORIES: dict[str, Make] = {
    "delta-sidecar": _delta_sidecar,
    "delta-sidecar-removed": partial(_delta_sidecar, removed=True),
    "iceberg-numbers": _iceberg_numbers,
    "iceberg-parentless": snapshots_without_parents,
    "iceberg-parentless-vectors": partial(snapshots_without_parents, make=_iceberg_vectors),
    "iceberg-turns": snapshots_by_turns,
    "iceberg-turns-vectors": partial(snapshots_by_turns, make=_iceberg_vectors),
    "paimon-turns": _paimon_by_turns,
    "paimon-turns-vectors": partial(_paimon_by_turns, make=_paimon_vectors),
}
"""Tables of many snapshots that list the same files again."""
READERS: dict[str, Callable[[Table], object]] = {"audit": audit, "history": lambda table: list(history(table))}
TABLE_COMMANDS = {
    "audit --all": ["--all"],
    "audit --json": ["--json"],
    "audit --repair-plan": ["--repair-plan"],
    "table --json": ["--json"],
    "log --json": ["--json"],
    "convert-table": ["--to", "delta", "-o", "OUT"],
    "report": ["-o", os.devnull],
    "delete --dry-run": ["--where", "id = 1", "--dry-run"],
    "enable --dry-run": ["--dry-run"],
    "export-live": ["-o", "OUT"],
    "upgrade-deletes --dry-run": ["--dry-run"],
}
"""Commands on a table, and what follows its path; most take longest for one of Paimon."""
NAMES = (
    *(f"many-{kind}-{reader}" for kind in TABLES for reader in READERS),
    *(f"many-{'iceberg' if 'upgrade' in command else 'paimon'}-{command}" for command in TABLE_COMMANDS),
    *(f"many-{kind}-vectors-audit --json" for kind in ("iceberg", "paimon")),
    *(f"many-iceberg-padded-{command}" for command in ("table --json", "report", "delete --dry-run")),
    *(f"many-iceberg-deletes-{command}" for command in ("audit --json", "audit --repair-plan", "report")),
    *(f"many-iceberg-named-{command}" for command in ("report", "upgrade-deletes --dry-run")),
    *(f"many-snapshots-{kind}" for kind in HISTORIES),
    *(f"command-{name}" for name in COMMANDS),
)


def largest(make: Callable[[int], bytes], accepts: Callable[[bytes], bool], most_bytes: int) -> bytes:
    """Return the file of as many things as it may have."""
    low = 64
    while len(data := make(2 * low)) <= most_bytes and accepts(data):
        low *= 2
    for step in (low // 2, low // 4, low // 8, low // 16):
        data = make(low + step)
        low += step if len(data) <= most_bytes and accepts(data) else 0
    return make(low)


def load(name: str, most_bytes: int) -> Target:
    """Return an entry: ``many-KIND-READER``, ``many-snapshots-KIND`` or ``command-NAME``."""
    what, _, rest = name.partition("-")
    if what == "command":
        return _command(name, rest, most_bytes)
    if rest.startswith("snapshots-"):
        return _many(name, HISTORIES[rest.removeprefix("snapshots-")], READERS["history"], most_bytes, long=True)
    for command, more in TABLE_COMMANDS.items():
        if rest.endswith(f"-{command}"):
            read = partial(_on_table, command.partition(" ")[0], more)
            return _many(name, TABLES[rest.removesuffix(f"-{command}")], read, most_bytes)
    kind, _, reader = rest.rpartition("-")
    return _many(name, TABLES[kind], READERS[reader], most_bytes)


def _many(name: str, make: Make, read: Callable[[Table], object], most_bytes: int, *, long: bool = False) -> Target:
    """A table that is opened, and audited or its history read, which may be too `long`."""
    folder = Path(tempfile.mkdtemp(prefix="cost-"))
    file = make(folder / "table", 1)

    def made(count: int) -> bytes:
        return make(Path(tempfile.mkdtemp(prefix="cost-")) / "table", count).read_bytes()

    def run(data: bytes) -> None:
        file.write_bytes(data)
        read(open_table(folder / "table"))

    def accepts(data: bytes) -> bool:
        file.write_bytes(data)
        return (long or _accepts(run, data)) and _accepts(lambda _: open_table(folder / "table").snapshot(), data)

    def mutate(data: bytes, rng: Any, change: Any) -> bytes:
        return structures.file_of_table(file.name, data, rng, change)

    def seeds() -> Iterator[bytes]:
        yield largest(made, accepts, most_bytes)

    return Target(name, "a table of many data files or vectors", run, seeds, mutate=mutate)


def _on_table(command: str, more: list[str], table: Table) -> None:
    out = f"{table.location}.out"
    _run_command(build(command), [command, table.location, *(out if word == "OUT" else word for word in more)])
    shutil.rmtree(out, ignore_errors=True)


def _run_command(app: Any, words: list[str]) -> None:
    import typer

    ended = (typer.Exit, SystemExit, DvcodecError, OSError)
    with Path(os.devnull).open("w") as sink, redirect_stdout(sink), redirect_stderr(sink), suppress(*ended):
        app(words, standalone_mode=False)


def _command(name: str, command: str, most_bytes: int) -> Target:
    """A command in this process, without the start of Python."""
    from fuzz.costly import COSTLY
    from limits.test_work import BOMBS, STORED

    files = {what: (one.make, one.read) for what, one in STORED.items()} | BOMBS | COSTLY
    folder = Path(tempfile.mkdtemp(prefix="cost-")) / "_versions"  # where Lance has its manifests
    folder.mkdir()
    path = folder / "v1.metadata.json.gz"
    named = {"FILE": str(path), "OLD": str(folder / "old"), "OUT": str(folder / "out")}
    Path(named["OLD"]).write_bytes(iceberg.encode(RowSet([1])))
    words = [named.get(word, word) for word in command.split()]
    if str(path) not in words:
        words.append(str(path))
    app = build(command.partition(" ")[0])

    def run(data: bytes) -> None:
        path.write_bytes(data)
        _run_command(app, words)

    def seeds() -> Iterator[bytes]:
        for what in COMMANDS[command]:
            make, read = files[what]

            def accepts(data: bytes, read: Callable[[Path], object] = read) -> bool:
                path.write_bytes(data)
                return _accepts(lambda _: read(path), data)

            yield largest(make, accepts, most_bytes)

    return Target(name, f"dvcodec {command}", run, seeds)


def _accepts(run: Callable[[bytes], object], data: bytes) -> bool:
    try:
        run(data)
    except DecodeError:
        return False
    return True

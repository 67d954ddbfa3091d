"""Tables whose metadata names a location of the test's choice, and file systems that record every use."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import fastavro
import fsspec
import pyarrow as pa
from fsspec.registry import _registry

from dvcodec import lance
from dvcodec.core import avro
from dvcodec.core.cursor import Cursor
from dvcodec.io import store
from dvcodec.io.store.errors import Reason, store_error
from dvcodec.lance import wire
from samples.bolt import Bolt, Inline
from samples.delta_table import DeltaBuilder, rows_from
from samples.iceberg_table import Commit, build_iceberg
from samples.paimon_table import PaimonFile, build_paimon, rewrite_avro, rewrite_json

GUARDED = (
    *("http", "https", "ftp", "ssh", "sftp", "github", "git", "smb", "webhdfs", "hdfs", "dask", "jupyter", "local"),
    *("simplecache", "filecache", "blockcache", "zip", "tar", "reference", "generic", "data", "hf", "dbfs"),
)
"""Protocols that fsspec knows and metadata may not name."""


class Trap(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """A file system that only notes that it was asked for."""

    cachable = False
    asked: ClassVar[list[str]] = []

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.asked.append(type(self).__name__)

    def info(self, path: str, **_: Any) -> Any:
        raise FileNotFoundError(path)

    def ls(self, path: str, **_: Any) -> Any:
        raise FileNotFoundError(path)


@contextmanager
def traps(*names: str) -> Iterator[list[str]]:
    """Put traps where fsspec has these protocols; the list has those that were asked for."""
    before, client = dict(_registry), store._client
    Trap.asked.clear()

    def trapped(kind: str, scheme: str, authority: str, *others: Any) -> Any:
        if kind not in names:
            return client(kind, scheme, authority, *others)
        Trap.asked.append(kind)
        raise store_error(f"{scheme}://{authority}", "read", "a trap", Reason.NO_OBJECT)

    store._client = trapped  # type: ignore[assignment]
    for name in names:
        kind = type(name, (Trap,), {"protocol": name})
        fsspec.register_implementation(name, kind, clobber=True)
    try:
        yield Trap.asked
    finally:
        _registry.clear()
        _registry.update(before)
        store._client = client
        Trap.asked.clear()


def iceberg_data_file(folder: Path, location: str) -> None:
    """A manifest entry names it."""

    def changed(entry: dict[str, Any]) -> dict[str, Any]:
        return entry | {"data_file": entry["data_file"] | {"file_path": location}}

    build_iceberg(folder, Commit(data={"a.parquet": 5}), tweak_entry=changed)


def iceberg_manifest_list(folder: Path, location: str) -> None:
    """A snapshot names it."""

    def changed(metadata: dict[str, Any]) -> dict[str, Any]:
        return metadata | {"snapshots": [{**metadata["snapshots"][0], "manifest-list": location}]}

    build_iceberg(folder, Commit(data={"a.parquet": 5}), tweak=changed)


def iceberg_statistics(folder: Path, location: str) -> None:
    """Read to find orphans."""
    statistics = {"snapshot-id": 101, "statistics-path": location, "file-size-in-bytes": 1}
    statistics |= {"file-footer-size-in-bytes": 1, "blob-metadata": []}
    build_iceberg(folder, Commit(data={"a.parquet": 5}), tweak=lambda metadata: metadata | {"statistics": [statistics]})


def delta_data_file(folder: Path, location: str) -> None:
    """An action names it."""
    table = DeltaBuilder(folder)
    table.create()
    added = table.write_file("a.parquet", rows_from(0, 5))
    table.commit({"add": added | {"path": quote(location, safe="/:")}})


def delta_vector(folder: Path, location: str) -> None:
    """A descriptor of an absolute path names it."""
    table = DeltaBuilder(folder)
    table.create()
    added = table.write_file("a.parquet", rows_from(0, 5))
    descriptor = {"storageType": "p", "pathOrInlineDv": quote(location, safe="/:"), "offset": 1}
    table.commit({"add": added | {"deletionVector": descriptor | {"sizeInBytes": 34, "cardinality": 1}}})


def paimon_data_file(folder: Path, location: str) -> None:
    """A manifest's external path names it."""
    folder.mkdir(parents=True)
    made = PaimonFile("a.parquet", pa.table({"id": [1, 2]}), more={"_EXTERNAL_PATH": f"{folder}/a.bin"})
    build_paimon(folder, [(0, "id", "INT")], [[made]])
    for path in (folder / "manifest").iterdir():
        _rewrite_avro(path, "_EXTERNAL_PATH", f"{folder}/a.bin", location)


def paimon_index_file(folder: Path, location: str) -> None:
    """An index manifest's external path names it."""
    build_paimon(folder, [(0, "id", "INT")], [[PaimonFile("a.parquet", pa.table({"id": [1, 2]}), [1])]])
    for path in (folder / "manifest").glob("index-manifest*"):
        _rewrite_avro(path, "_EXTERNAL_PATH", None, location)


def lance_base_path(folder: Path, location: str) -> None:
    """A manifest's base path names it, for a data file."""
    file = wire.message(2, wire.message(1, b"a.lance"), wire.scalar(7, 1))
    base = wire.message(18, wire.scalar(1, 1), wire.message(4, location.encode()))
    lance_manifest(folder, wire.message(2, file, wire.scalar(4, 4)) + base)


def lance_manifest(folder: Path, *parts: bytes) -> None:
    """A dataset of one version."""
    body = b"".join([*parts, wire.scalar(3, 1)])
    (folder / "_versions").mkdir(parents=True)
    (folder / "_versions" / lance.manifest_name(1)).write_bytes(
        struct.pack("<I", len(body)) + body + struct.pack("<qhh4s", 0, 0, 2, b"LANC")
    )


CRAFTS: dict[str, Callable[[Path, str], None]] = {
    craft.__name__: craft
    for craft in (
        iceberg_data_file,
        iceberg_manifest_list,
        iceberg_statistics,
        delta_data_file,
        delta_vector,
        paimon_data_file,
        paimon_index_file,
        lance_base_path,
    )
}
"""Where metadata names locations."""


def delta_sidecar(folder: Path, name: str) -> None:
    """A checkpoint names its sidecars."""
    table = DeltaBuilder(folder)
    table.create()
    table.commit({"add": table.write_file("a.parquet", rows_from(0, 5))})
    top, *sidecars = table.checkpoint("json")
    top.write_text(top.read_text().replace(f'"{sidecars[0].name}"', f'"{name}"'))
    for commit in (folder / "_delta_log").glob("?" * 20 + ".json"):
        commit.unlink()


def _paimon(folder: Path) -> None:
    build_paimon(folder, [(0, "id", "INT")], [[PaimonFile("a.parquet", pa.table({"id": [1, 2]}), [1])]])


def paimon_manifest_list(folder: Path, name: str) -> None:
    """A snapshot names it."""
    _paimon(folder)
    for path in (folder / "snapshot").glob("snapshot-*"):
        rewrite_json(path, baseManifestList=name)


def paimon_manifest(folder: Path, name: str) -> None:
    """A manifest list names it."""
    _paimon(folder)
    for path in (folder / "manifest").glob("manifest-list-*"):
        rewrite_avro(path, lambda record: record.update(_FILE_NAME=name))


def paimon_file_name(folder: Path, name: str) -> None:
    """A manifest names a data file."""
    _paimon(folder)
    for path in (folder / "manifest").glob("manifest-[0-9]*"):
        rewrite_avro(path, lambda record: record["_FILE"].update(_FILE_NAME=name))


def paimon_extra_file(folder: Path, name: str) -> None:
    """A manifest names what belongs to a data file."""
    _paimon(folder)
    for path in (folder / "manifest").glob("manifest-[0-9]*"):
        rewrite_avro(path, lambda record: record["_FILE"].update(_EXTRA_FILES=[name]))


def paimon_index_name(folder: Path, name: str) -> None:
    """An index manifest names a file of vectors."""
    _paimon(folder)
    for path in (folder / "manifest").glob("index-manifest*"):
        rewrite_avro(path, lambda record: record.update(_FILE_NAME=name))


def paimon_data_folder(folder: Path, name: str) -> None:
    """A table's option names the folder of its data files."""
    _paimon(folder)
    for path in (folder / "schema").iterdir():
        rewrite_json(path, options={**json.loads(path.read_text())["options"], "data-file.path-directory": name})


def lance_data_file(folder: Path, name: str) -> None:
    """A fragment names it."""
    lance_manifest(folder, wire.message(2, wire.message(2, wire.message(1, name.encode())), wire.scalar(4, 4)))


def scorch_segment(folder: Path, name: str) -> None:
    """A snapshot names it."""
    meta, segment = Inline({b"type": b"zap", b"version": b"\0\0\0\x0f\0"}), Inline({b"p": name.encode()})
    folder.mkdir()
    root = Bolt({b"s": {b"\x88": {b"m": meta, b"\x88": segment}}})
    (folder / "root.bolt").write_bytes(root.data())


NAMES: dict[str, Callable[[Path, str], None]] = {
    craft.__name__: craft
    for craft in (
        delta_sidecar,
        paimon_manifest_list,
        paimon_manifest,
        paimon_file_name,
        paimon_extra_file,
        paimon_index_name,
        paimon_data_folder,
        lance_data_file,
        scorch_segment,
    )
}
"""Where metadata names files of a folder that it does not choose."""


def upload(folder: Path, url: str) -> None:
    """Copy a table into a remote store."""
    files, root = fsspec.core.url_to_fs(url)
    for path in folder.rglob("*"):
        if path.is_file():
            files.pipe_file(f"{root}/{path.relative_to(folder).as_posix()}", path.read_bytes())


def _rewrite_avro(path: Path, name: str, old: str | None, new: str) -> None:
    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: new if key == name and item == old else changed(item) for key, item in value.items()}
        return value

    file = avro.decode(Cursor(path.read_bytes()))
    if name in json.dumps(file.schema):
        with path.open("wb") as out:
            fastavro.writer(out, file.schema, map(changed, list(file.records())))


def use(table: Any) -> None:
    """All that an audit does: every snapshot, every vector, every data file, all that is referenced."""
    for info in table.snapshots():
        snapshot = table.snapshot(info.id)
        for vector in snapshot.vectors:
            snapshot.read(vector)
        for file in snapshot.data_files:
            list(snapshot.rows(file))
    table.referenced()

"""Open a table: by its folder, by its name in a catalog, or from an object of pyiceberg or deltalake."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from dvcodec.core.errors import UsageError
from dvcodec.core.limits import Limits, check_limits
from dvcodec.core.usage import check_choice, check_type
from dvcodec.io import StorageOptions, storage_of
from dvcodec.io.target import local_path, protocols
from dvcodec.tables.adapters import ADAPTERS, Adapter
from dvcodec.tables.folder import Folder, folder_location
from dvcodec.tables.model import METADATA_SUFFIXES, TableKind
from dvcodec.tables.table import Table

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table as PyIcebergTable

    TableSource: TypeAlias = str | os.PathLike[str] | tuple[str, ...] | PyIcebergTable | DeltaTable

_SIGNS: tuple[tuple[TableKind, frozenset[str]], ...] = (
    (TableKind.DELTA, frozenset({"_delta_log"})),
    (TableKind.LANCE, frozenset({"_versions"})),
    (TableKind.PAIMON, frozenset({"snapshot", "schema"})),
    (TableKind.ICEBERG, frozenset({"metadata"})),
    (TableKind.SCORCH, frozenset({"store"})),
    (TableKind.SCORCH, frozenset({"root.bolt"})),
)
"""Names in a table's folder by kind, the most specific first."""


def open_table(
    target: TableSource,
    *,
    kind: TableKind | None = None,
    catalog: Catalog | str | None = None,
    reference: str | None = None,
    only_writer: bool = False,
    allow: Iterable[str] = (),
    limits: Limits | None = None,
    storage_options: StorageOptions = None,
) -> Table:
    """Open a table by its folder, by its name in a catalog, or from an object of pyiceberg or deltalake.

    Args:
        target: the table's folder (path or URL), whose names show its kind; of Iceberg also one of its
            metadata files (``*.metadata.json``, ``*.metadata.json.gz``), to open the table as of that file. With
            `catalog`, the table's name there: ``"db.orders"`` (a part that has a dot itself in quotes:
            ``'"my.db".orders'``), or a tuple of its parts. Or a ``pyiceberg.table.Table``, opened as of its metadata
            and committed to through its catalog; or a ``deltalake.DeltaTable``, opened by its folder in all versions.
        kind: required if a folder has the metadata of several kinds (a Delta table that Iceberg reads too).
        catalog: a catalog of pyiceberg, or its name in pyiceberg's configuration (extra ``catalogs``).
        reference: a branch or tag of an Iceberg table, whose snapshot is the current one then. Deletes are committed to
            the branch; a tag cannot be committed to. None: the main branch.
        only_writer: lets deletes be committed to the folder of an Iceberg table whose metadata files are named as
            catalogs name them (``00003-<uuid>.metadata.json``). True says that no catalog has the table, and that
            nothing but dvcodec commits to it: other writers would not see the commits, and their own could be lost.
        allow: protocols (``http``, ``sftp``) of locations that the metadata may name besides those of the table's own
            storage and of object stores; ``file`` for local files that a remote table names. Others are refused.
        limits: bounds on what the files of the table may claim, for all that is done with it; None: the defaults, or
            those of a `Storage`.
        storage_options: how to reach the store of a URL, as deltalake and polars spell it; see the guide on object
            stores. Opening a table again with the same `Storage` clears its cache of the table. None: for an object,
            or a table of a catalog, as that reaches it.

    Raises:
        UsageError: the path is empty, or the folder does not exist, has no table metadata, or has metadata of several
            kinds; the catalog does not have the table, or is not configured; there is no such branch or tag.
        DecodeError: the metadata is corrupt.
        MissingExtra: a package that reads the metadata, or asks the catalog, is not installed.
        OSError: it cannot be read.
    """
    if kind is not None:
        check_choice(getattr(kind, "value", kind), [one.value for one in TableKind], "kind")
        kind = TableKind(kind)
    if limits is not None:
        check_limits(limits)
    in_catalog = catalog is not None or _is(target, "pyiceberg.table", "Table")
    if in_catalog and kind is not None and kind is not TableKind.ICEBERG:
        raise UsageError(f"kind {kind.value}: tables of pyiceberg's catalogs are Iceberg tables")
    if in_catalog and only_writer:
        raise UsageError("only_writer: a table of a catalog is committed to through the catalog")
    if in_catalog:
        return _at(_of_catalog(target, catalog, allow, limits, storage_options), reference)
    if _is(target, "deltalake.table", "DeltaTable"):
        options = getattr(target, "_storage_options", None)
        uri = cast("DeltaTable", target).table_uri
        target = str(local_path(uri) or uri)
        kind = kind or TableKind.DELTA
        storage_options = options if storage_options is None else storage_options
    if not isinstance(target, (str, os.PathLike)):
        raise UsageError(
            "expected a table's path or URL, its name and a catalog, a pyiceberg Table or a deltalake DeltaTable, not "
            f"{type(target).__name__}"
        )
    table = _of_folder(folder_location(target), kind, allow, limits, storage_options)
    if only_writer:
        if table.kind is not TableKind.ICEBERG:
            raise UsageError(f"{table.location}: only_writer is for Iceberg tables, not for {table.kind.value}")
        from dvcodec.tables.iceberg.folder_place import FolderPlace  # noqa: PLC0415  (what reads Iceberg alone)

        cast("Any", table).place = FolderPlace(table.folder, only_writer=True)
    return _at(table, reference)


def _at(table: Table, reference: str | None) -> Table:
    if reference is None:
        return table
    check_type(reference, str, "reference", "the name of a branch or tag")
    if table.kind is not TableKind.ICEBERG:
        raise UsageError(f"{table.location}: reference is for Iceberg tables, not for {table.kind.value}")
    found: Table = cast("Any", table).at(reference)
    return found


def _of_folder(
    location: str, kind: TableKind | None, allow: Iterable[str], limits: Limits | None, storage_options: StorageOptions
) -> Table:
    storage = storage_of(storage_options, limits)
    of_file = location.endswith(METADATA_SUFFIXES)
    storage.reopen(location.rpartition("/metadata/")[0] if of_file else location)
    folder = Folder(location, allow=protocols(allow), storage=storage)
    local = local_path(location)
    names: frozenset[str] = frozenset()
    if of_file:
        found = [TableKind.ICEBERG]
    else:
        if local is not None and local.is_file():
            raise UsageError(f"{location}: a file, not the folder of a table; dvcodec verify checks files")
        names = frozenset(folder.names())
        if not names and local is not None and not local.is_dir():
            raise UsageError(f"{location}: no such folder{_how_to_reach(location)}")
        found = kinds_of(names)
        if not found and "schema" in names and "schema-0" in folder.names("schema"):
            found = [TableKind.PAIMON]  # nothing has been committed to it yet
    if kind is not None:
        found = [kind]
    if not found:
        if not names:
            raise UsageError(
                f"{location}: no table: {'there are no files' if local is None else 'the folder is empty'}"
            )
        signs = "there is no _delta_log, metadata, snapshot and schema, _versions, or root.bolt"
        raise UsageError(f"{location}: no table ({_what_else(location, names) or signs})")
    if len(found) > 1:
        raise UsageError(f"{location}: tables of several kinds ({', '.join(found)}): choose one with kind")
    return _adapter(found[0]).open(folder)


def _how_to_reach(location: str) -> str:
    """Say how a table is named that is not a folder here: one of a catalog, or a path of Databricks."""
    if not location.startswith("dbfs:"):
        named = "." in location and "/" not in location
        return "; a table of a catalog is opened with the catalog (--catalog)" if named else ""
    inside = location.removeprefix("dbfs:").lstrip("/")
    return f": on a cluster of Databricks it is /dbfs/{inside}, elsewhere name the object store's URL"


def _what_else(location: str, names: frozenset[str]) -> str | None:
    """Say what a folder without a table's metadata is, if that is known."""
    if ".hoodie" in names:
        return "a Hudi table, whose deletes are log blocks: their row positions are bitmaps of the dialect hudi"
    above, _, last = location.rstrip("/").rpartition("/")
    if any(last in wanted for _, wanted in _SIGNS):
        return f"a folder of a table's metadata: the table is {above or '.'}"
    return None


def _adapter(kind: TableKind) -> Adapter:
    """Return the adapter of a format; no other is imported."""
    if kind is TableKind.ICEBERG:
        import dvcodec.tables.iceberg  # noqa: PLC0415
    elif kind is TableKind.DELTA:
        import dvcodec.tables.delta  # noqa: PLC0415
    elif kind is TableKind.PAIMON:
        import dvcodec.tables.paimon  # noqa: PLC0415
    elif kind is TableKind.LANCE:
        import dvcodec.tables.lance  # noqa: PLC0415
    else:
        import dvcodec.tables.scorch  # noqa: F401, PLC0415
    return ADAPTERS[kind]


def kinds_of(names: frozenset[str]) -> list[TableKind]:
    """Return the formats whose metadata is in a folder, by the names in it."""
    return list(dict.fromkeys(kind for kind, wanted in _SIGNS if wanted <= names))


def _of_catalog(
    target: Any, catalog: Any, allow: Iterable[str], limits: Limits | None, storage_options: StorageOptions
) -> Table:
    from dvcodec.tables.iceberg import catalogs  # noqa: PLC0415  (asks pyiceberg)

    if catalog is None:
        return catalogs.from_pyiceberg(target, storage_options=storage_options, allow=allow, limits=limits)
    if not isinstance(target, (str, tuple)):
        raise UsageError(f"catalog: expected the table's name in it, not {type(target).__name__}")
    if isinstance(catalog, str):
        catalog = catalogs.load(catalog)
    return catalogs.from_catalog(catalog, target, storage_options=storage_options, allow=allow, limits=limits)


def _is(target: object, module: str, name: str) -> bool:
    """Whether a target is an instance of another library's class; the library is not imported for that."""
    known = sys.modules.get(module)
    return known is not None and isinstance(target, getattr(known, name))

"""Commits to Iceberg tables through the catalogs of pyiceberg.

REST catalogs write the new metadata themselves. Catalogs in SQL, Glue, Hive and BigQuery leave that to pyiceberg, which
does not write metadata of format version 3 (as of 0.12): so dvcodec writes the file, and pyiceberg makes it current by
swapping the row, the version or the lock. pyiceberg cannot commit to DynamoDB's catalog.
"""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from dvcodec.core.errors import CommitConflict, CommitUnknown, DvcodecError, UsageError
from dvcodec.core.extras import require_extra
from dvcodec.core.limits import Limits
from dvcodec.io import Storage, StorageOptions, open_sink, remove, storage_of
from dvcodec.io.target import protocols
from dvcodec.tables.folder import Folder
from dvcodec.tables.iceberg.metadata import Change, changed, forgotten, metadata_bytes, read_members, remove_old
from dvcodec.tables.iceberg.table import IcebergTable, Place
from dvcodec.tables.iceberg.table import open as open_iceberg
from dvcodec.tables.metadata.json_fields import JsonFields

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table as PyIcebergTable

_STORES = {
    "s3": ("s3", "s3a", "s3n"),
    "adls": ("abfs", "abfss", "wasb", "wasbs", "az"),
    "gcs": ("gs", "gcs"),
}
"""First word of pyiceberg's properties -> protocols of the store that they are for."""
_KEYS = ("access-key-id", "secret-access-key", "session-token", "region")
_ACCOUNT = ("account-name", "account-key", "sas-token", "tenant-id", "client-id", "client-secret")


def _named(prefix: str, store: str, names: Iterable[str]) -> dict[str, str]:
    """Return properties whose options have the same names, spelled with underscores."""
    return {f"{prefix}.{name}": f"{store}_{name.replace('-', '_')}" for name in names}


_OPTIONS = {
    "s3": {
        **_named("client", "aws", _KEYS),
        **_named("s3", "aws", _KEYS),
        "client.profile-name": "aws_profile",
        "s3.profile-name": "aws_profile",
        "s3.endpoint": "endpoint",
        "s3.anonymous": "anonymous",
        "s3.force-virtual-addressing": "aws_virtual_hosted_style_request",
        "s3.proxy-uri": "proxy_url",
        "s3.connect-timeout": "connect_timeout",
        "s3.request-timeout": "timeout",
    },
    "adls": _named("adls", "azure_storage", _ACCOUNT),
    "gcs": {"gcs.service.host": "endpoint"},
}
"""Properties of pyiceberg's file access -> storage options, the more specific last; other properties are ignored."""
_PART = re.compile(r"""(?:"(?:[^"]|"")+"|`(?:[^`]|``)+`|[^."`]+)""")
_QUOTED = re.compile(rf"{_PART.pattern}(?:\.{_PART.pattern})*")
_WAITS = (0.0, 0.2, 1.0, 3.0)
"""Seconds to wait before each check whether an unanswered commit succeeded."""


def load(name: str) -> Catalog:
    """Return a catalog of pyiceberg's configuration: ``.pyiceberg.yaml``, or variables ``PYICEBERG_CATALOG__...``.

    Raises:
        UsageError: it is not configured, or its configuration is invalid.
        MissingExtra: pyiceberg is not installed.
        OSError: it cannot be reached.
    """
    pyiceberg = require_extra("pyiceberg.catalog", "catalogs")
    try:
        found: Catalog = pyiceberg.load_catalog(name)
    except (ValueError, pyiceberg.NotInstalledError) as error:
        raise UsageError(f"catalog {name}: {error}") from error
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"catalog {name}: it cannot be loaded: {error}") from error
    return found


def from_pyiceberg(
    table: PyIcebergTable,
    *,
    storage_options: StorageOptions = None,
    allow: Iterable[str] = (),
    limits: Limits | None = None,
) -> IcebergTable:
    """Open a table that pyiceberg loaded, as of its metadata; commits go through its catalog.

    Args:
        table: of pyiceberg.
        storage_options: how its store is reached; None = by the table's own properties.
        limits: see `open_table`.
        allow: see `dvcodec.tables.open_table`.

    Raises:
        DecodeError: the metadata is corrupt.
        OSError: it cannot be read.
    """
    options = _store_options(table) if storage_options is None else storage_options
    return CatalogPlace(table.catalog, table.name(), storage_of(options, limits), allow).open(table)


def from_catalog(
    catalog: Catalog,
    identifier: str | tuple[str, ...],
    *,
    storage_options: StorageOptions = None,
    allow: Iterable[str] = (),
    limits: Limits | None = None,
) -> IcebergTable:
    """Open a table of a catalog by its name; see `from_pyiceberg`.

    Args:
        catalog: of pyiceberg.
        identifier: the table's name: the parts, or text with dots between them. A part that has a dot itself is quoted,
            by ``"`` or, as in Spark, by a backtick.
        storage_options: see `from_pyiceberg`.
        allow: see `from_pyiceberg`.
        limits: see `open_table`.

    Raises:
        UsageError: the catalog does not have it, or a quote is not closed.
        DecodeError: the metadata is corrupt.
        OSError: it cannot be read.
    """
    with _errors_of(identifier):
        table = catalog.load_table(_parts(identifier) if isinstance(identifier, str) else identifier)
    return from_pyiceberg(table, storage_options=storage_options, allow=allow, limits=limits)


def _parts(name: str) -> str | tuple[str, ...]:
    """Return the parts of a name with quotes; any other is pyiceberg's to split.

    >>> _parts("db.orders"), _parts('"my.db".orders'), _parts("`a``b`.t")
    ('db.orders', ('my.db', 'orders'), ('a`b', 't'))

    Raises:
        UsageError: a quote is not closed, or within a part.
    """
    if '"' not in name and "`" not in name:
        return name
    if not _QUOTED.fullmatch(name):
        raise UsageError(f'{name}: expected parts with dots between them, those that have a dot in quotes: "a.b".c')
    return tuple(one[1:-1].replace(one[0] * 2, one[0]) if one[0] in '"`' else one for one in _PART.findall(name))


class CatalogPlace(Place):
    """A table in a catalog, which records the newest metadata file.

    Args:
        catalog: of pyiceberg.
        identifier: the table's name in it.
        storage: opens and writes the table's files.
        allow: see `dvcodec.tables.open_table`.
    """

    knows_newest = True

    def __init__(
        self, catalog: Catalog, identifier: str | tuple[str, ...], storage: Storage, allow: Iterable[str] = ()
    ) -> None:
        self._catalog, self._identifier = catalog, identifier
        self._storage, self._allow = storage, protocols(allow)

    def load(self) -> IcebergTable:
        """Open the table by the metadata file that the catalog records as current."""
        return self.open(self._load())

    def open(self, table: PyIcebergTable) -> IcebergTable:
        """Open the table as of the metadata that pyiceberg loaded."""
        found = open_iceberg(Folder(table.metadata_location, allow=self._allow, storage=self._storage))
        found.place = self
        return found

    def check(self, table: IcebergTable, members: JsonFields) -> None:  # noqa: ARG002  (the catalog knows the rest)
        """Refuse catalogs that pyiceberg does not commit to."""
        from pyiceberg.catalog import MetastoreCatalog  # noqa: PLC0415
        from pyiceberg.catalog.rest import RestCatalog  # noqa: PLC0415

        name = type(self._catalog).__name__
        if not isinstance(self._catalog, (RestCatalog, MetastoreCatalog)) or name == "DynamoDbCatalog":
            raise UsageError(
                f"{table.metadata.source}: pyiceberg does not commit to a {name}; it does to catalogs of "
                "REST, SQL, Glue and Hive"
            )

    def put(self, table: IcebergTable, members: JsonFields, change: Change) -> None:
        """Commit through the catalog; the table is loaded again to settle an unanswered request."""
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415

        base = table.metadata.references[change.branch].snapshot_id
        written: list[str] = []
        loaded = self._load()
        try:
            self._commit(loaded, table, members, change, written)
        except _NotWritten as error:
            self._remove(written)
            raise error.reason from None
        except Exception as error:
            if not _is_refusal(error):
                self._settle(change, base, error)
                return
            try:
                now = self._load()
            except (DvcodecError, OSError) as unread:
                raise CommitUnknown(f"{self._name}: {error}; then it could not be read: {unread}") from error
            if self._has(now, change):  # the answer to an earlier try of pyiceberg's was lost
                return
            self._remove(written)
            if isinstance(error, CommitFailedException) or now.metadata_location != table.metadata.source:
                raise CommitConflict(f"{self._name}: {error}") from error
            raise OSError(f"{self._name}: the catalog refused the commit: {error}") from error

    def _remove(self, written: Iterable[str]) -> None:
        for location in written:
            remove(location, storage_options=self._storage)

    def _commit(
        self, loaded: PyIcebergTable, table: IcebergTable, members: JsonFields, change: Change, written: list[str]
    ) -> None:
        from pyiceberg.catalog import MetastoreCatalog  # noqa: PLC0415

        catalog = self._catalog
        if isinstance(catalog, MetastoreCatalog):
            catalog = self._with_own_metadata(table.folder, change, written)
        base = table.metadata.references[change.branch].snapshot_id
        requirements, updates = _requests(members, change, base)
        catalog.commit_table(loaded, requirements, updates)
        for location in written:
            new = read_members(location, self._storage)
            remove_old(table.folder, location, forgotten(members, new.values))

    def _with_own_metadata(self, folder: Folder, change: Change, written: list[str]) -> Any:
        """Return the catalog with a metadata writer of our own, based on the file that the swap will compare."""
        from pyiceberg.exceptions import CommitFailedException  # noqa: PLC0415
        from pyiceberg.table.snapshots import MetadataLogEntry  # noqa: PLC0415

        def write(metadata: Any, io: Any, metadata_path: str) -> None:  # noqa: ARG001  (pyiceberg calls it so)
            previous = metadata.metadata_log[-1].metadata_file
            members = read_members(folder.locate(previous), self._storage)
            snapshot = change.snapshot
            if snapshot is not None and (
                snapshot["sequence-number"] <= members.integer("last-sequence-number")
                or ("first-row-id" in snapshot and snapshot["first-row-id"] < members.integer("next-row-id"))
            ):
                raise CommitFailedException(f"{previous}: another branch was committed to")
            try:
                location = folder.locate(metadata_path)
                written.append(location)
                with open_sink(location, storage_options=self._storage) as sink:
                    sink.write(metadata_bytes(changed(members, change, previous), metadata_path, previous))
            except (DvcodecError, OSError) as error:
                raise _NotWritten(error) from error

        catalog: Any = copy.copy(self._catalog)
        stage = catalog._update_and_stage_table  # noqa: SLF001  (pyiceberg has no public way)

        def upgraded(current: Any, identifier: Any, requirements: Any, updates: Any) -> Any:  # noqa: ARG001
            """Stage an upgrade that pyiceberg does not know: in its own metadata only time and log change."""
            staged = stage(current, identifier, requirements, ())
            entry = MetadataLogEntry.model_validate(
                {"metadata-file": current.metadata_location, "timestamp-ms": current.metadata.last_updated_ms}
            )
            log = [*staged.metadata.metadata_log, entry]
            new = {"last_updated_ms": change.timestamp_ms, "metadata_log": log}
            staged.metadata = staged.metadata.model_copy(update=new)
            return staged

        if change.upgrade is not None:
            catalog._update_and_stage_table = upgraded  # noqa: SLF001  (no public way)
        catalog._write_metadata = write  # noqa: SLF001  (the one place where pyiceberg writes it)
        catalog._write_metadata_no_exist_check = write  # noqa: SLF001  (used in place of the other)
        return catalog

    def _settle(self, change: Change, base: int | None, error: Exception) -> None:
        """Find out whether an unanswered commit succeeded.

        Raises:
            CommitConflict: another commit on the same base succeeded, so this one cannot.
            CommitUnknown: neither did so far.
        """
        for wait in _WAITS:
            time.sleep(wait)
            with suppress(OSError, UsageError):
                now = self._load()
                if self._has(now, change):
                    return
                reference = now.metadata.refs.get(change.branch)
                current = None if reference is None else reference.snapshot_id
                if current != base:
                    raise CommitConflict(f"{self._name}: another writer committed first") from error
        said = f"{type(error).__name__}: {error}"
        raise CommitUnknown(f"{self._name}: the catalog did not say whether the commit is in: {said}") from error

    def _has(self, table: PyIcebergTable, change: Change) -> bool:
        if change.snapshot is None:
            return bool(table.metadata.format_version == change.upgrade)
        return table.metadata.snapshot_by_id(change.snapshot_id) is not None

    @property
    def _name(self) -> str:
        return self._identifier if isinstance(self._identifier, str) else ".".join(self._identifier)

    def _load(self) -> PyIcebergTable:
        with _errors_of(self._identifier):
            return self._catalog.load_table(self._identifier)


class _NotWritten(Exception):
    """The metadata file could not be written: nothing is committed."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _is_refusal(error: Exception) -> bool:
    """Whether the catalog rejected the commit; after any other error it may have succeeded."""
    from pyiceberg import exceptions as of  # noqa: PLC0415

    denied = (of.UnauthorizedError, of.ForbiddenError, of.OAuthError)
    return isinstance(error, (of.CommitFailedException, of.BadRequestError, of.NoSuchTableError, *denied, ValueError))


def _requests(members: JsonFields, change: Change, base: int | None) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return requirements and updates of a commit, as pyiceberg has them."""
    from pyiceberg.table import refs, snapshots, update  # noqa: PLC0415

    requirements: list[Any] = [
        update.AssertTableUUID.model_validate({"uuid": members.text("table-uuid")}),
        update.AssertRefSnapshotId.model_validate({"ref": change.branch, "snapshot-id": base}),
    ]
    updates: list[Any] = []
    if change.upgrade is not None:
        updates.append(update.UpgradeFormatVersionUpdate.model_validate({"format-version": change.upgrade}))
    if change.snapshot is not None:
        schema = {"current-schema-id": members.integer("current-schema-id")}  # in which the rows were searched
        requirements.append(update.AssertCurrentSchemaId.model_validate(schema))
        branch = members.object_if_any("refs").object_if_any(change.branch)
        kept = {
            name: branch.integer_or_none(name)
            for name in ("max-ref-age-ms", "max-snapshot-age-ms", "min-snapshots-to-keep")
        }
        moved = {"ref-name": change.branch, "type": refs.SnapshotRefType.BRANCH, "snapshot-id": change.snapshot_id}
        updates.append(update.AddSnapshotUpdate(snapshot=snapshots.Snapshot(**change.snapshot)))
        updates.append(update.SetSnapshotRefUpdate.model_validate(moved | kept))
    return tuple(requirements), tuple(updates)


@contextmanager
def _errors_of(identifier: str | tuple[str, ...]) -> Iterator[None]:
    """Raise the errors of a catalog as errors of this library."""
    from pyiceberg.exceptions import NoSuchTableError  # noqa: PLC0415

    try:
        yield
    except NoSuchTableError as error:
        raise UsageError(f"{identifier}: no such table in the catalog") from error
    except (DvcodecError, OSError):
        raise
    except Exception as error:
        raise OSError(f"{identifier}: the request to the catalog failed: {error}") from error


def _store_options(table: PyIcebergTable) -> dict[str, str]:
    """Return the storage options by which pyiceberg reaches the store of a table."""
    scheme = table.metadata_location.partition("://")[0].lower()
    store = next((name for name, schemes in _STORES.items() if scheme in schemes), None)
    if store is None:
        return {}
    properties = table.io.properties
    options = {name: str(properties[key]) for key, name in _OPTIONS[store].items() if properties.get(key)}
    if options.get("endpoint", "").startswith("http:"):
        options["allow_http"] = "true"
    return options

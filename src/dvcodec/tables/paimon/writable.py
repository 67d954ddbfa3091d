"""Which tables deletes may be committed to.

Java classes ``CoreOptions`` and ``SchemaValidation``. Options say what Paimon's own writers do at a commit, where the
rows of a table come from, and where its files are; those under which this library's commit would be another one than
Paimon's are refused by name.
"""

from __future__ import annotations

import re

from dvcodec.core.errors import Unsupported, UsageError
from dvcodec.paimon import DELETION_VECTORS, TARGET_SIZE, read_index_manifest
from dvcodec.tables.paimon.metadata import SnapshotRecord, TableSchema
from dvcodec.tables.paimon.snapshot import ENABLED, PaimonSnapshot

_USUAL = {
    "type": "table",
    "branch": "main",
    "changelog-producer": "none",
    "metadata.iceberg.storage": "disabled",
    "data-evolution.enabled": "false",
    "chain-table.enabled": "false",
    "query-auth.enabled": "false",
    "commit.callbacks": "",
    "scan.fallback-branch": "",
    "scan.fallback-snapshot-branch": "",
    "scan.fallback-delta-branch": "",
    "scan.primary-branch": "",
}
"""Options that change what a delete is, or what else a commit writes, and their usual values."""
_LAYOUT = (
    "data-file.path-directory",
    "index-file-in-data-file-dir",
    "partition.default-name",
    "partition.legacy-name",
)
"""Options that say where files are."""
_UNITS = {"b": 0, "bytes": 0, "k": 10, "kb": 10, "kibibytes": 10, "m": 20, "mb": 20, "mebibytes": 20, "g": 30, "gb": 30}
"""Units of sizes, as powers of two."""
_MAX_ID = 2**63 - 1
_TARGET_SIZE = "deletion-vector.index-file.target-size"


def check_writable(base: PaimonSnapshot) -> None:
    """Refuse a table whose deletes are more, or other, than deletion vectors.

    Raises:
        UsageError: deletion vectors are not enabled.
        Unsupported: a kind of table, an option or a metadata field under which a delete is not known to be right.
        DecodeError: the metadata is corrupt.
        OSError: it cannot be read.
    """
    schema, folder = base.schemas(base.schema_id or 0), base.table.folder
    source = folder.join(schema.name)
    if re.search(r"/branch/branch-[^/]*$", folder.location):
        raise Unsupported("branch", source=folder.location, expected="the table's own folder", actual="a branch of it")
    if schema.primary_keys:
        actual = f"the primary key {', '.join(schema.primary_keys)}"
        raise Unsupported("kind of table", source=source, expected="an append table", actual=actual)
    for option, usual in _USUAL.items():
        actual = schema.options.get(option, usual).strip().lower()
        if actual not in (usual, ""):
            raise Unsupported(f"table option {option}", source=source, expected=usual or "not set", actual=actual)
    if not schema.is_true(ENABLED):
        raise UsageError(
            f"{source}: deletion vectors are not enabled ({ENABLED}: {schema.options.get(ENABLED, 'not set')}): "
            "enable them first, with dvcodec enable or dvcodec.tables.enable"
        )
    has_buckets(schema, source)
    index_target_size(schema, source)
    for path, visible in base.visible.items():
        if isinstance(visible, str):
            raise Unsupported("rows of a data file", source=path, expected="rows of the file alone", actual=visible)
    if base.state is not None:
        check_next(base.state.id, folder.join(base.state.name))
        _check_state(base, base.state, schema, source)


def check_next(number: int, source: str) -> None:
    """Check that the snapshot or schema after this one has an id.

    Raises:
        Unsupported: it would not be a 64-bit number, which nobody reads.
    """
    if number >= _MAX_ID:
        raise Unsupported(
            "id", source=source, expected=f"at most {_MAX_ID - 1}, so that another follows", actual=number
        )


def _check_state(base: PaimonSnapshot, state: SnapshotRecord, schema: TableSchema, source: str) -> None:
    """Check that the newest schema has the files of a snapshot where its own has them, and which indexes it has."""
    before, now = layout_of(base.schemas(state.schema_id)), layout_of(schema)
    if before != now:
        raise Unsupported("options of file paths", source=source, expected=f"as before: {before}", actual=now)
    if state.index_manifest is not None:
        manifest = base.table.folder.join(f"manifest/{state.index_manifest}")
        for entry in read_index_manifest(manifest, storage_options=base.table.folder.storage):
            if entry.index_type != DELETION_VECTORS:
                expected, actual = DELETION_VECTORS, repr(entry.index_type)
                raise Unsupported("_INDEX_TYPE", source=manifest, expected=expected, actual=actual)


def layout_of(schema: TableSchema) -> dict[str, str]:
    """Return the options of a schema that say where files are."""
    return {option: schema.options[option] for option in _LAYOUT if option in schema.options}


def has_buckets(schema: TableSchema, source: str) -> bool:
    """Whether rows are distributed to buckets, each of which has one index file at most.

    Raises:
        Unsupported: the number of buckets is not known here.
    """
    text = schema.options.get("bucket", "-1").strip()
    if text != "-1" and not re.fullmatch(r"[1-9][0-9]{0,9}", text):
        raise Unsupported("table option bucket", source=source, expected="-1, or a number of buckets", actual=text)
    return text != "-1"


def index_target_size(schema: TableSchema, source: str) -> int:
    """Return the size in bytes from which an index file is full.

    Raises:
        Unsupported: the option is not a size.
    """
    text = schema.options.get(_TARGET_SIZE)
    if text is None:
        return TARGET_SIZE
    match = re.fullmatch(r"([0-9]{1,18})\s*([a-z]*)", text.strip().lower())
    if match is None or (match[2] or "b") not in _UNITS:
        raise Unsupported(f"table option {_TARGET_SIZE}", source=source, expected="a size like 2 mb", actual=repr(text))
    return int(match[1]) << _UNITS[match[2] or "b"]

"""Rows of a data file by physical position, in the schema of a state.

Paimon stores all columns in a data file, with those of the partition, and for tables with a primary key
``_VALUE_KIND`` and more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dvcodec.core.errors import NotCanonical
from dvcodec.io import Storage
from dvcodec.tables.columns import column_errors, unrelated
from dvcodec.tables.model import DataFile, PhysicalRows
from dvcodec.tables.paimon.binary_row import Value
from dvcodec.tables.paimon.data_file import open_data_file
from dvcodec.tables.paimon.evolution import evolve, stored_as
from dvcodec.tables.paimon.metadata import SchemaField, TableSchema
from dvcodec.tables.paimon.types import DataType, Field, arrow_field, arrow_type, parse_type
from dvcodec.tables.paimon.visible import Visible

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["column", "read_rows"]

VALUE_KIND = "_VALUE_KIND"
INSERT, UPDATE_AFTER = 0, 2
_KINDS = 4


def column(field: SchemaField, schema_source: str) -> Field:
    """Return a column with its type parsed.

    Raises:
        NotCanonical: the type is none.
        Unsupported: one that is not known here.
    """
    with column_errors(field.name):
        return Field(field.id, field.name, parse_type(field.type, source=schema_source, what=f"column {field.name}"))


@dataclass(frozen=True, slots=True)
class _Stored:
    """A column of the file: what it is called there, and its type."""

    name: str
    type: DataType


def read_rows(
    data_file: DataFile,
    storage: Storage,
    columns: Sequence[Field],
    constants: dict[str, Value],
    written: TableSchema,
    written_source: str,
    visible: Visible,
    batch_rows: int,
    shown: Sequence[SchemaField] = (),
) -> Iterator[PhysicalRows]:
    """Read a data file. One with rows and without any of the columns that its schema says it has is refused.

    Args:
        data_file: which.
        storage: by which it is opened.
        columns: what to read, in the schema of the state.
        constants: values of the partition columns, by name.
        written: the schema that the file was written with.
        written_source: that schema's file, for errors.
        visible: which records are rows.
        batch_rows: at most so many rows in a batch.
        shown: all columns of the state; those of `columns` may be some of them.

    Raises:
        NotCanonical: the file is not sound, or has other rows than the metadata says.
        Unsupported: its format, or a change of a column's type.
        OSError: it cannot be read.
    """
    import pyarrow as pa  # noqa: PLC0415

    stored = _stored_columns(data_file, columns, constants, written, written_source)
    target = pa.schema([arrow_field(field) for field in columns])
    with open_data_file(data_file.location, storage) as file:
        if file.rows != data_file.physical_rows:
            expected = f"{data_file.physical_rows} (metadata)"
            raise NotCanonical("rows of the data file", source=data_file.location, expected=expected, actual=file.rows)
        if file.rows:
            _check_related(data_file, file.columns, shown, constants, written)
        # A column that the file lacks was added before the file became the table's: readers take null for it.
        wanted = {
            field.id: found for field in columns if (found := stored.get(field.id)) and found.name in file.columns
        }
        names = list(dict.fromkeys(found.name for found in wanted.values()))
        if visible is Visible.KINDS:
            if VALUE_KIND not in file.columns:
                raise NotCanonical("column", source=data_file.location, expected=VALUE_KIND, actual="no such column")
            names.append(VALUE_KIND)
        for start, batch in file.read(names, batch_rows):
            arrays = [_values(field, constants, wanted.get(field.id), batch, data_file.location) for field in columns]
            result = pa.RecordBatch.from_arrays(arrays, schema=target) if arrays else batch.select([])
            yield PhysicalRows(start, result, _keep(visible, batch, data_file.location))


def _check_related(
    data_file: DataFile,
    found: Collection[str],
    shown: Sequence[SchemaField],
    constants: Mapping[str, Value],
    written: TableSchema,
) -> None:
    """Refuse a file that holds nothing of its own schema, or nothing of what that has in common with the state's.

    Where they have nothing in common, all columns were dropped since: then null is what the others are.
    """
    names = data_file.record.get("_WRITE_COLS")
    own = [field for field in written.fields if field.name not in constants and (names is None or field.name in names)]
    ids = {field.id for field in shown if field.name not in constants}
    for wanted in (own, [field for field in own if field.id in ids]):
        if wanted and not any(field.name in found for field in wanted):
            raise unrelated(data_file.location, [field.name for field in wanted], sorted(found))


def _stored_columns(
    data_file: DataFile,
    columns: Sequence[Field],
    constants: dict[str, Value],
    written: TableSchema,
    written_source: str,
) -> dict[int, _Stored]:
    """Find the columns by id in the schema that the file was written with; one that was not written is left out."""
    written_names = data_file.record.get("_WRITE_COLS")
    by_id = {field.id: field for field in written.fields}
    found = {}
    for wanted in columns:
        field = by_id.get(wanted.id)
        if field is None or wanted.name in constants or (written_names is not None and field.name not in written_names):
            continue
        found[wanted.id] = _Stored(field.name, column(field, written_source).type)
    return found


def _values(
    field: Field, constants: dict[str, Value], stored: _Stored | None, batch: pa.RecordBatch, source: str
) -> pa.Array:
    import pyarrow as pa  # noqa: PLC0415

    kind = arrow_type(field.type)
    if field.name in constants:
        return pa.repeat(_scalar(constants[field.name], field.type), batch.num_rows)
    if stored is None:
        return pa.nulls(batch.num_rows, kind)
    what = f"column {stored.name}"
    array = stored_as(batch.column(stored.name), stored.type, source=source, what=what)
    return evolve(array, stored.type, field.type, source=source, what=what)


def _scalar(value: Value, kind: DataType) -> pa.Scalar[Any]:
    import pyarrow as pa  # noqa: PLC0415

    wanted = arrow_type(kind)
    if kind.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and value is not None:
        value = int(value) // {"ms": 1_000_000, "us": 1000, "ns": 1}[wanted.unit]
    return pa.scalar(value, wanted)


def _keep(visible: Visible, batch: pa.RecordBatch, source: str) -> pa.BooleanArray | None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    if visible is Visible.ALL:
        return None
    if visible is Visible.NONE:
        return pa.repeat(pa.scalar(False), batch.num_rows)
    kinds = batch.column(VALUE_KIND)
    known = pa.array(range(_KINDS), kinds.type)
    if not pc.all(pc.is_in(kinds, known), min_count=0).as_py():
        odd = next(kind for kind in kinds.unique().to_pylist() if kind not in range(_KINDS))
        raise NotCanonical(f"column {VALUE_KIND}", source=source, expected="0 to 3", actual=str(odd))
    return pc.is_in(kinds, pa.array([INSERT, UPDATE_AFTER], kinds.type))

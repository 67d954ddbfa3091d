"""The vector files that a plan needs, written into a folder of their own."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import cache

from dvcodec.core.errors import UsageError
from dvcodec.core.location import DvLocation
from dvcodec.core.rowset import RowSet
from dvcodec.core.usage import check_type
from dvcodec.io import Storage, StorageOptions, remove, storage_of
from dvcodec.io.target import local_path
from dvcodec.ops import convert
from dvcodec.ops.convert import ConvertTarget
from dvcodec.ops.sniff import ContainerKind, sniff_source
from dvcodec.puffin import rewrite_paths
from dvcodec.tables.arguments import check_table
from dvcodec.tables.model import DeletionVector, TableKind
from dvcodec.tables.new_files import check_outside, new_files, vector_file
from dvcodec.tables.repair.actions import RepairAction, RepairPlan
from dvcodec.tables.table import Table

__all__ = ["write"]


def write(
    plan: RepairPlan, table: Table, folder: str, *, storage_options: StorageOptions = None
) -> tuple[DvLocation, ...]:
    """Write the vector files that a plan needs; committing them is left to a table library.

    Vectors are read and verified again. New vectors go into one Puffin file (Iceberg), one vector file (Delta), or one
    index file for each partition, bucket and width (Paimon); Puffin files with other paths are copied blob by blob.

    Args:
        plan: from `repair_plan`.
        table: the table for which it was made.
        folder: path or URL of a folder outside of the table; a local one is created.
        storage_options: how to reach the store of `folder`; None = as for the table.

    Returns:
        The locations that a commit has to reference instead of `RepairAction.replaces`, in the order of the actions.
        `data_file` is `DataFile.path`. Actions of other kinds need no file.

    Raises:
        UsageError: the folder is in the table; the plan is for another table; vectors of a format that only its own
            library can write (Lance, scorch).
        DecodeError: a vector has changed or is corrupt.
        OSError: a file cannot be read or written. Then no new file is left behind.
    """
    check_type(plan, RepairPlan, "plan", "a RepairPlan")
    check_table(table)
    if (plan.table, plan.kind) != (table.location, table.kind):
        raise UsageError(f"the plan is for {plan.table}, not for {table.location}")
    if not folder:
        raise UsageError("the folder for new vectors is empty: name one")
    check_outside(folder, table.location)
    groups = _groups(plan)
    if groups and table.kind not in (TableKind.ICEBERG, TableKind.DELTA, TableKind.PAIMON):
        raise UsageError(f"vectors of a {table.kind.value} table have to be written by its own library")
    local = local_path(folder)
    if local is not None:
        local.mkdir(parents=True, exist_ok=True)
    storage = table.folder.storage if storage_options is None else storage_of(storage_options)
    with new_files(storage) as written:
        found: dict[int, list[DvLocation]] = {}
        snapshot = cache(table.snapshot)
        for group in groups.values():
            to = _layout(group[0][1].replaces[0], table.kind)
            path = vector_file(folder, to)
            written.append(path)
            vectors = {
                str(action.data_file): RowSet().union(
                    *(found.rows for vector in action.reads for found in snapshot(action.snapshot).read(vector))
                )
                for _, action in group
            }
            locations = convert.write(to, path, vectors, storage_options=storage)
            by_file = {location.data_file: location for location in locations}
            found |= {index: [by_file[action.data_file]] for index, action in group}
        for index, action in enumerate(plan.actions):
            if action.action == "rewrite-paths":
                found[index] = _rewrite(action, folder, written, table.folder.storage, storage)
    return tuple(location for index in sorted(found) for location in found[index])


def _groups(plan: RepairPlan) -> dict[Hashable, list[tuple[int, RepairAction]]]:
    """Group the actions that need a new vector, with their indices in the plan, by new file."""
    groups: dict[Hashable, list[tuple[int, RepairAction]]] = {}
    for index, action in enumerate(plan.actions):
        if action.reads:
            vector = action.replaces[0]
            bucket = (vector.format, vector.partition_key, vector.bucket)
            groups.setdefault(bucket if plan.kind is TableKind.PAIMON else None, []).append((index, action))
    return groups


def _layout(vector: DeletionVector, kind: TableKind) -> ConvertTarget:
    """Return the layout of a file for new vectors in place of a recorded one."""
    if kind is TableKind.PAIMON:
        return "paimon64" if vector.format == "paimon64" else "paimon32"
    return "puffin" if kind is TableKind.ICEBERG else "delta"


def _rewrite(action: RepairAction, folder: str, written: list[str], old: Storage, new: Storage) -> list[DvLocation]:
    """Write a Puffin file with the current paths of its data files; other containers have no paths."""
    container = str(action.path)
    moved = [
        replace(vector, data_file=action.mapping.get(str(vector.data_file), vector.data_file))
        for vector in action.replaces
    ]
    with old.open(container) as source:
        if sniff_source(source).kind is ContainerKind.PUFFIN:
            path = vector_file(folder, "puffin")
            written.append(path)
            if rewrite_paths(source, path, lambda one: action.mapping.get(one, one), storage_options=new):
                with new.open(path) as copy:
                    moved = [replace(vector, path=path, file_size=copy.size) for vector in moved]
            else:  # only the metadata was stale
                remove(written.pop(), storage_options=new)
    return [vector.to_location() for vector in moved]

"""Rows of Lance's data files, as Lance's own library reads them (extra ``lance``), in another process.

Its Rust code ends the process on some corrupt files: where a length in them is too much to allocate, or an error is to
be reported whose text has a NUL character. See `workers`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from dvcodec.core.errors import DvcodecError, NotCanonical, UsageError
from dvcodec.core.extras import pa, pc, require_extra
from dvcodec.io.target import local_path
from dvcodec.io.worker_program import BATCH, MISSING
from dvcodec.io.workers import Kind, borrowed
from dvcodec.tables.model import WHOLE, DataFile, Part, PhysicalRows
from dvcodec.tables.rows.bounds import RowGroupFilter
from dvcodec.tables.rows.columns import select

if TYPE_CHECKING:
    from dvcodec.io.store import StoreOptions
    from lance import LanceDataset

_SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_LANCE = Kind("lance", "Lance", "a batch of Lance", memory=8 << 30, seconds=600.0, system_errors=True)
_FRAGMENT_BITS = 32
"""A row address is the fragment's id, shifted by these bits, plus the row's physical position."""


def open_version(location: str, version: int, options: StoreOptions | None = None) -> LanceDataset:
    """Open a version of a dataset.

    Args:
        location: its folder, path or URL.
        version: the version to open.
        options: for a URL: how to reach the store. Lance's library connects to it itself.

    Raises:
        MissingExtra: Lance's library is not installed.
        NotCanonical: it refuses the dataset.
    """
    lance = require_extra("lance.dataset", "lance", "pylance")  # not `lance`: any folder of that name would be imported
    location, given = of_library(location, options)
    with _refusals(location, f"version {version}"):
        return lance.LanceDataset(location, version=version, storage_options=given)


def schema_of(dataset: LanceDataset) -> pa.Schema:
    """Return the columns of a version, those of blobs as bytes.

    Raises:
        NotCanonical: Lance's library refuses them.
    """
    with _refusals(dataset.uri, f"schema of version {dataset.version}"):
        return dataset.scanner(blob_handling="all_binary").projected_schema


def of_library(location: str, options: StoreOptions | None) -> tuple[str, dict[str, str] | None]:
    """Return the location and the options of a store as Lance's library spells them."""
    if (local := local_path(location)) is not None:
        return os.path.abspath(local), None  # noqa: PTH100  (it commits to no path with ``..``; links stay)
    scheme, separator, rest = location.partition("://")  # it knows s3a and upper case no more than s3n
    given = options.for_rust() if options is not None else None
    return f"{_SCHEMES.get(scheme.lower(), scheme.lower())}{separator}{rest}", given or None


def fragment_rows(
    location: str,
    version: int,
    options: StoreOptions | None,
    data_file: DataFile,
    number: int,
    columns: Sequence[str] | None,
    *,
    batch_rows: int,
    part: Part = WHOLE,
    wanted: RowGroupFilter | None = None,  # noqa: ARG001  (it has no row groups)
) -> Iterator[PhysicalRows]:
    """Open a version, see `open_version`, and read a fragment of it, deleted rows included; see `Snapshot.rows`.

    Args:
        location: see `open_version`.
        version: see `open_version`.
        options: see `open_version`.
        data_file: the fragment.
        number: its id.
        columns: names to read, in this order; None = all.
        batch_rows: maximum rows in a batch.
        part: of the fragment; all of it is in the first.
        wanted: see `Snapshot.rows`.

    Raises:
        UsageError: no such column or fragment.
        NotCanonical: Lance's library refuses the data, or returns its rows out of order.
        OSError: a data file cannot be read.
    """
    if part.number:
        return
    require_extra("pyarrow", "arrow")  # the worker would end without a word
    location, given = of_library(location, options)
    missing = UsageError(f"{location}: version {version} has no fragment {number}")
    with borrowed(_LANCE) as worker:

        def answer(what: str, source: str) -> memoryview:
            found = worker.answer(what, source, "what Lance can read")
            if found[:1] == MISSING:
                require_extra("lance.dataset", "lance", "pylance")
                raise missing
            return found

        worker.send({"do": "open", "location": location, "version": version, "options": given})
        opened = answer(f"version {version}", location)
        schema = select(pa.ipc.read_schema(pa.py_buffer(opened[9:])), columns, location)
        names = schema.names
        worker.send({"do": "read", "fragment": number, "columns": names, "rows": batch_rows})
        what, start = f"fragment {number}", 0
        answer(what, data_file.location)
        while True:
            worker.send({"do": "next"})
            found = answer(what, data_file.location)
            if found[:1] != BATCH:
                break
            for batch in pa.ipc.open_stream(pa.py_buffer(found[1:])):
                _check_order(batch["_rowaddr"], (number << _FRAGMENT_BITS) + start, data_file.location)
                whole = batch.select(names)
                for at in range(0, batch.num_rows, batch_rows):
                    rows = whole.slice(at, batch_rows)
                    yield PhysicalRows(start + at, rows.cast(schema) if names else rows)
                start += batch.num_rows
    if data_file.physical_rows not in (None, start):
        raise NotCanonical(
            f"rows of fragment {number}", source=data_file.location, expected=data_file.physical_rows, actual=start
        )


def _check_order(addresses: pa.UInt64Array, first: int, source: str) -> None:
    """Check the order of rows: Lance returns the addresses of live rows, and null for deleted ones."""
    expected = pa.array(np.arange(first, first + len(addresses), dtype=np.uint64))
    if pc.all(pc.equal(addresses, expected)).as_py() is False:
        raise NotCanonical("order of the rows", source=source, expected=f"ascending addresses from {first}")


@contextmanager
def _refusals(source: str, what: str) -> Iterator[None]:
    """Raise errors of Lance's library as `NotCanonical`."""
    try:
        yield
    except DvcodecError:
        raise
    except BaseException as error:
        # A panic of its Rust code derives from BaseException, and its class cannot be imported.
        if not isinstance(error, (ValueError, RuntimeError, KeyError)) and type(error).__name__ != "PanicException":
            raise
        message = str(error).partition("\n")[0]
        raise NotCanonical(what, source=source, expected="what Lance can read", actual=message) from None

"""Every format has the same functions with the same parameters, and reads back by location what it has written."""

from __future__ import annotations

import importlib
import inspect
import io
from pathlib import Path
from typing import Any

import pytest

import dvcodec
from dvcodec import (
    CardinalityMismatch,
    LimitExceeded,
    Limits,
    RowSet,
    Truncated,
    Unsupported,
    UsageError,
    delta,
    iceberg,
    paimon,
)

VECTORS = {"s3://b/one.parquet": RowSet([1, 5]), "s3://b/two.parquet": RowSet(range(100, 9000)), "none": RowSet()}


def test_names_of_tables_are_listed_and_loaded_when_they_are_used() -> None:
    from dvcodec import tables

    assert dir(tables) == sorted(tables.__all__)
    assert all(getattr(tables, name) is getattr(tables, name) for name in dir(tables))
    with pytest.raises(AttributeError, match=r"module 'dvcodec\.tables' has no attribute 'nope'"):
        tables.nope  # noqa: B018


DOORS = {
    "decode": (["buf"], ["limits", "source", "base", "cardinality", "verify_checksum"], "RowSet"),
    "encode": (["rows"], ["run_optimize"], "bytes"),
    "load": (["location"], ["limits", "verify_checksum", "storage_options"], "RowSet"),
    "read_deletion_vectors": (["source"], ["limits", "verify_checksum", "storage_options"], "dict[str, RowSet]"),
    "write_deletion_vectors": (["target", "vectors"], ["run_optimize", "storage_options"], "list[DvLocation]"),
    "write_stored_vectors": (["target", "vectors"], ["storage_options"], "list[DvLocation]"),
}
"""Door -> leading parameters, options that every format has, and what it returns."""
FORMATS = (iceberg, delta, paimon)
FIRST = {"decode": "buf", "read": "source", "load": "source", "open": "source", "write": "target"}
"""First word of a function's name -> name of its first parameter."""
EXCEPTIONS = {
    **dict.fromkeys(["iceberg.load", "delta.load", "paimon.load"], "location"),
    "delta.decode_inline": "text",
    "paimon.write_index_files": "folder",
    "lance.write_deletion_file": "folder",
    "puffin.decode_footer": "source",  # read by byte ranges
}


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("module", FORMATS, ids=lambda module: module.__name__)
def test_formats_have_the_same_doors(module: Any, name: str) -> None:
    leading, options, returned = DOORS[name]
    signature = inspect.signature(getattr(module, name))
    parameters = list(signature.parameters.values())
    assert [one.name for one in parameters[: len(leading)]] == leading
    assert {*options} <= {one.name for one in parameters if one.kind is one.KEYWORD_ONLY}
    assert signature.return_annotation == returned


@pytest.mark.parametrize("name", ["delta", "iceberg", "lance", "paimon", "puffin"])
def test_a_first_parameter_has_one_name_for_each_idea(name: str) -> None:
    module = importlib.import_module(f"dvcodec.{name}")
    for public in module.__all__:
        value, verb = getattr(module, public), public.partition("_")[0]
        if inspect.isfunction(value) and verb in FIRST:
            expected = EXCEPTIONS.get(f"{name}.{public}", FIRST[verb])
            assert next(iter(inspect.signature(value).parameters)) == expected, f"{name}.{public}"


def test_what_decodes_has_its_inverse() -> None:
    for name in ("iceberg", "delta", "paimon", "lance", "puffin"):
        names = importlib.import_module(f"dvcodec.{name}").__all__
        decoders = {one.removeprefix("decode") for one in names if one.startswith("decode")}
        encoders = {one.removeprefix("encode") for one in names if one.startswith("encode")}
        assert decoders == encoders, name


@pytest.mark.parametrize("module", FORMATS, ids=lambda module: module.__name__)
def test_locations_are_read_back(module: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "vectors")
    locations = module.write_deletion_vectors(path, VECTORS)
    assert {location.data_file: module.load(location) for location in locations} == VECTORS
    rest = () if module is iceberg else (locations,)
    assert module.read_deletion_vectors(path, *rest) == VECTORS
    with pytest.raises(LimitExceeded):
        module.load(max(locations, key=lambda one: one.size), limits=Limits(max_vector_bytes=20))


def test_manifest_entries_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "x.puffin"
    for location in iceberg.write_deletion_vectors(path, VECTORS):
        entry = iceberg.manifest_entry(location)
        rows = VECTORS[entry["referenced_data_file"]]
        assert iceberg.load(entry) == iceberg.load(entry, path.read_bytes()) == rows
        with pytest.raises(CardinalityMismatch):
            iceberg.load(entry | {"record_count": 7})
        with pytest.raises(Truncated):
            iceberg.load(entry | {"content_offset": 10**6})
        with pytest.raises(Unsupported):
            iceberg.load(entry | {"file_path": "http://host/x.puffin"})
        with pytest.raises(UsageError, match="content_offset must be of type int"):
            iceberg.load(entry | {"content_offset": None})


def test_delta_reads_by_descriptors() -> None:
    out = io.BytesIO()
    locations = delta.write_deletion_vectors(out, VECTORS)
    descriptors = {
        str(one.data_file): delta.Descriptor("p", "/elsewhere", one.size - 8, one.cardinality, one.offset)
        for one in locations
    }
    assert delta.read_deletion_vectors(out.getvalue(), descriptors) == VECTORS
    with pytest.raises(UsageError, match="inline"):
        delta.read_deletion_vectors(out.getvalue(), {"a": delta.encode_inline(RowSet([1]))})
    with pytest.raises(UsageError, match="a second vector"):
        delta.read_deletion_vectors(out.getvalue(), [locations[0], locations[0]])


def test_bytes_are_sources() -> None:
    out = io.BytesIO()
    iceberg.write_deletion_vectors(out, VECTORS)
    assert len(dvcodec.puffin.decode_footer(out.getvalue()).blobs) == 3
    out = io.BytesIO()
    delta.write_deletion_vectors(out, VECTORS)
    assert len(list(delta.read_frames(out.getvalue()))) == 3


def test_paimon_metadata_needs_its_file() -> None:
    with pytest.raises(UsageError, match="pass it as source"):
        paimon.load(paimon.DeletionVectorMeta("a", 1, 26))

"""Paimon's index manifest: real ones of all generations, round trips, and files made to harm."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec import DecodeError, NotCanonical, Unsupported, UsageError, paimon
from dvcodec.core.avro import CODECS
from dvcodec.paimon import (
    DELETION_VECTORS,
    SCHEMA,
    DeletionVectorMeta,
    GlobalIndexMeta,
    IndexManifestEntry,
    read_index_manifest,
    write_index_manifest,
)
from samples.avro import block, header, records

FORMS = [*CODECS, "orc", "parquet"]
"""Codecs of Avro, and the other formats."""


def written(*entries: IndexManifestEntry, form: str = "null") -> bytes:
    out = io.BytesIO()
    if form in CODECS:
        write_index_manifest(out, entries, codec=form)
    else:
        write_index_manifest(out, entries, file_format=form)
    return out.getvalue()


# ---------------------------------------------------------------------- real files


def test_what_real_manifests_name_is_there(vectors: Path) -> None:
    paths = list(vectors.glob("paimon/*/db.db/*/manifest/index-manifest-*"))
    assert len(paths) >= 6
    for path in paths:
        root = path.parent.parent
        for entry in read_index_manifest(path):
            index = Path(entry.path(str(root)))
            assert index == Path(entry.path(f"{root}/")) == root / "index" / entry.file_name
            if entry.vectors:
                file = paimon.IndexFile(str(index), entry.file_size, entry.vectors)
                of_file = IndexManifestEntry.from_index_file(file, partition=entry.partition, bucket=entry.bucket)
                assert of_file == entry
            assert entry.file_size == index.stat().st_size
            if entry.vectors is None:
                assert len(paimon.decode_hash_index(index.read_bytes(), row_count=entry.row_count)) == entry.row_count
                continue
            sets = paimon.read_deletion_vectors(index, entry.vectors)
            assert len(sets) == len(entry.vectors) == entry.row_count
            assert list(paimon.load_frames(index).values()) == list(sets.values())


# ---------------------------------------------------------------------- round trips

PLAIN = IndexManifestEntry(DELETION_VECTORS, "index-0", 33, 1)


@each(
    "changes",
    [
        {"kind": "REPLACE"},
        {"bucket": 2**64},
        {"file_size": None},
        {"row_count": -(2**63) - 1},
        {"file_name": "\ud800"},
        {"partition": "text"},
        {"global_index": GlobalIndexMeta(0, 0, 0, (2**31,))},
        {"global_index": GlobalIndexMeta(0, 0, 0, None, "text")},  # type: ignore[arg-type]
    ],
    ids=ascii,
)
def test_value_that_the_schema_does_not_hold_is_a_usage_error(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        write_index_manifest(tmp_path / "x", [replace(PLAIN, **changes)])
    assert list(tmp_path.iterdir()) == []


NAMES = st.text(max_size=8)
METAS = st.builds(
    DeletionVectorMeta,
    NAMES,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
    st.none() | st.integers(0, 2**63 - 1),
)
INT, LONG = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
COUNT = st.integers(0, 2**63 - 1)
MANIFEST_ENTRIES = st.builds(
    IndexManifestEntry,
    NAMES,
    NAMES,
    COUNT,
    COUNT,
    st.binary(max_size=20),
    INT,
    st.sampled_from(["ADD", "DELETE"]),
    st.none() | st.lists(METAS, max_size=4, unique_by=lambda meta: meta.data_file).map(tuple),
    st.none() | NAMES,
    st.none()
    | st.builds(
        GlobalIndexMeta,
        LONG,
        LONG,
        INT,
        st.none() | st.lists(INT, min_size=1, max_size=4).map(tuple),
        st.none() | st.binary(max_size=4),
        st.none() | st.binary(max_size=4),
    ),
)


@given(st.lists(MANIFEST_ENTRIES, max_size=4), st.sampled_from(FORMS))
def test_round_trip(entries: list[IndexManifestEntry], form: str) -> None:
    assert read_index_manifest(written(*entries, form=form)) == entries


# ---------------------------------------------------------------------- entries


@each("name", ["../x", "", "..", ".", "index-0\0"])
def test_name_with_a_folder_is_refused(name: str) -> None:
    entry = replace(PLAIN, file_name=name)
    with pytest.raises(NotCanonical) as caught:
        entry.path("/t")
    assert (caught.value.what, caught.value.expected) == ("_FILE_NAME", "a bare file name")
    assert caught.value.actual == repr(name)


# ---------------------------------------------------------------------- damage


def test_other_manifests_of_paimon_are_unsupported(vectors: Path) -> None:
    folder = vectors / "paimon/java-0.9.0-tables/db.db/dv/manifest"
    others = [path for path in folder.iterdir() if not path.name.startswith("index-manifest")]
    assert len(others) > 5
    for path in others:
        with pytest.raises(Unsupported, match="Avro schema") as caught:
            read_index_manifest(path)
        assert caught.value.source == str(path)


# ---------------------------------------------------------------------- other writers' schemas


def record_of(name: str = "index-0", **values: Any) -> dict[str, Any]:
    """A record as it stands in the file."""
    return {
        "_VERSION": 1,
        "_KIND": 0,
        "_PARTITION": bytes(12),
        "_BUCKET": 0,
        "_INDEX_TYPE": "DELETION_VECTORS",
        "_FILE_NAME": name,
        "_FILE_SIZE": 1,
        "_ROW_COUNT": 0,
        "_DELETIONS_VECTORS_RANGES": None,
        "_EXTERNAL_PATH": None,
        "_GLOBAL_INDEX": None,
        **values,
    }


def changed(change: Callable[[list[dict[str, Any]]], object]) -> dict[str, Any]:
    """The schema with its fields changed."""
    schema = copy.deepcopy(SCHEMA)
    change(schema["fields"])
    return schema


def ranges_of(fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fields of a vector's record."""
    found: list[dict[str, Any]] = fields[8]["type"][1]["items"][1]["fields"]
    return found


def manifest(schema: Any, *values: dict[str, Any]) -> bytes:
    return header(schema) + block(len(values), records(schema, *values))


def vector_of(**values: Any) -> dict[str, Any]:
    return {"f0": "a", "f1": 1, "f2": 24, "_CARDINALITY": 2, **values}


@pytest.mark.parametrize("count", [8, 10])
def test_later_fields_may_be_missing(count: int) -> None:
    def change(fields: list[dict[str, Any]]) -> None:
        ranges_of(fields).pop()
        del fields[count:]

    found = read_index_manifest(manifest(changed(change), record_of(_DELETIONS_VECTORS_RANGES=[vector_of()])))
    vectors = (DeletionVectorMeta("a", 1, 24, None),) if count > 8 else None
    assert found == [IndexManifestEntry(DELETION_VECTORS, "index-0", 1, 0, vectors=vectors)]


@each("name", [field["name"] for field in SCHEMA["fields"][:8]])
def test_field_of_all_generations_has_to_be_there(name: str) -> None:
    schema = changed(lambda fields: fields.remove(next(field for field in fields if field["name"] == name)))
    with pytest.raises(Unsupported) as caught:
        read_index_manifest(manifest(schema, record_of()))
    assert (caught.value.what, caught.value.actual) == ("Avro schema", f"no field {name}")


# ---------------------------------------------------------------------- fields that are not known


@each("kind", ["string", "bytes", "long"])
def test_unknown_field_may_be_there_as_long_as_it_is_null(kind: str) -> None:
    value = {"string": "x", "bytes": b"x"}.get(kind, 1)
    schema = changed(lambda fields: fields.append({"name": "_NEW", "type": ["null", kind], "default": None}))
    assert len(read_index_manifest(manifest(schema, record_of(_NEW=None)))) == 1
    with pytest.raises(Unsupported) as caught:
        read_index_manifest(manifest(schema, record_of(), record_of(_NEW=value)))
    assert (caught.value.what, caught.value.offset) == ("_NEW of entry 1", 0)


# ---------------------------------------------------------------------- values


GLOBAL = {"_ROW_RANGE_START": 0, "_ROW_RANGE_END": 9, "_INDEX_FIELD_ID": 1}
RANGES = "_DELETIONS_VECTORS_RANGES"


@each(
    ("changes", "kind", "message"),
    [
        ({"_VERSION": 2}, Unsupported, "_VERSION of entry 1: expected 1, found 2"),
        ({"_KIND": 2}, NotCanonical, r"_KIND of entry 1: expected 0 \(ADD\) or 1 \(DELETE\), found 2"),
        ({"_FILE_SIZE": -1}, NotCanonical, "_FILE_SIZE of entry 1: expected 0 or more, found -1"),
        ({"_ROW_COUNT": -1}, NotCanonical, "_ROW_COUNT of entry 1: expected 0 or more, found -1"),
        ({RANGES: [vector_of(), None]}, NotCanonical, f"{RANGES} of entry 1: expected records, found a null"),
        ({RANGES: [vector_of(f1=-1)]}, NotCanonical, f"{RANGES} of entry 1: .*offset -1 is not"),
        (
            {RANGES: [vector_of(), vector_of(f0="b"), vector_of(f1=100)]},
            NotCanonical,
            f"{RANGES} of entry 1: expected one vector per data file, found two for 'a'",
        ),
        # Numbers of 64 bits where the schema has 32.
        ({"_BUCKET": 2**31}, NotCanonical, "_BUCKET of entry 1: expected 32 bits"),
        ({"_BUCKET": -(2**31) - 1}, NotCanonical, "_BUCKET of entry 1: expected 32 bits"),
        ({"_GLOBAL_INDEX": GLOBAL | {"_INDEX_FIELD_ID": 2**40}}, NotCanonical, "field id of entry 1: expected 32 bits"),
        ({"_GLOBAL_INDEX": GLOBAL | {"_EXTRA_FIELD_IDS": [1, 2**31]}}, NotCanonical, "field id of entry 1: .* 32 bits"),
    ],
)
def test_values_that_cannot_be_are_refused(changes: dict[str, Any], kind: type[DecodeError], message: str) -> None:
    longs = json.loads(json.dumps(SCHEMA).replace('"int"', '"long"'))
    data = header(SCHEMA) + block(2, records(longs, record_of() | {RANGES: [vector_of()]}, record_of() | changes))
    with pytest.raises(kind, match=f"at byte 0: {message}"):
        read_index_manifest(data)

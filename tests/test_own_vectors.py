"""The committed vectors of the reference implementations: bytes to rows, and rows to the same bytes."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from cases import each
from dvcodec import RowSet, delta, iceberg, paimon, puffin, sniff, verify
from dvcodec.core import vector
from dvcodec.core.cursor import Cursor
from dvcodec.core.roaring import pieces_of, walk64
from dvcodec.core.vector import Magic, encode_payload, read_payload

VECTORS = Path(__file__).parent / "vectors"


def entries(pattern: str, *suffixes: str) -> list[Any]:
    """All entries of the manifests under `pattern` with one of the suffixes, as pytest parameters."""
    found = []
    for manifest in sorted(VECTORS.glob(f"{pattern}/manifest.json")):
        for entry in json.loads(manifest.read_text()):
            if entry["file"].endswith(suffixes):
                path = manifest.parent / entry["file"]
                found.append(pytest.param(path, entry, id=f"{manifest.parent.name}/{path.name}"))
    assert found, f"no committed vectors in {pattern}"
    return found


@each(("path", "entry"), entries("iceberg/*", ".dv"))
def test_iceberg_blobs(path: Path, entry: dict[str, Any]) -> None:
    rows = RowSet.from_ranges(entry["ranges"])
    blob = path.read_bytes()
    assert iceberg.decode(blob, cardinality=len(rows)) == rows
    assert iceberg.encode(rows) == blob
    assert delta.encode(rows) == blob
    assert verify(path, cardinality=len(rows)).ok


@pytest.mark.parametrize(("path", "entry"), entries("iceberg/*", ".puffin"))
def test_iceberg_puffin_files(path: Path, entry: dict[str, Any]) -> None:
    vectors = {name: RowSet.from_ranges(ranges) for name, ranges in entry["vectors"].items()}
    assert iceberg.read_deletion_vectors(path) == vectors
    with puffin.open_puffin(path) as reader:
        created_by = reader.footer.properties["created-by"]
    out = io.BytesIO()
    locations = iceberg.write_deletion_vectors(out, vectors, created_by=created_by)
    assert out.getvalue() == path.read_bytes()
    theirs = json.loads(path.with_suffix(".json").read_text())
    for ours, entry_of_java in zip(map(iceberg.manifest_entry, locations), theirs, strict=True):
        assert {name: ours[name] for name in entry_of_java if name != "format"} == {
            name: value for name, value in entry_of_java.items() if name != "format"
        }
    assert verify(path).ok


@each(("path", "entry"), entries("delta/*", ".portable", ".native"))
def test_delta_payloads(path: Path, entry: dict[str, Any]) -> None:
    rows = RowSet.from_ranges(entry["ranges"])
    payload = path.read_bytes()
    magic = Magic.PORTABLE64 if path.suffix == ".portable" else Magic.NATIVE64
    assert read_payload(Cursor(payload), cardinality=len(rows)).load() == rows
    assert magic.value + encode_payload(rows, magic) == payload
    assert delta.encode(rows, layout=path.suffix[1:]) == vector.build(magic, payload[4:])
    if rows:
        descriptor = delta.encode_inline(rows, layout=path.suffix[1:])
        assert descriptor.size_in_bytes == len(payload)
        assert delta.load(descriptor) == rows


@each(("path", "entry"), entries("roaring/*", ".roaring64"))
def test_64_bit_maps(path: Path, entry: dict[str, Any]) -> None:
    rows = RowSet.from_ranges(entry["ranges"])
    data = path.read_bytes()
    assert RowSet.from_bitmaps(walk64(Cursor(data)).load()) == rows
    assert b"".join(pieces_of(rows.serialized(), gap_keys=False)) == data
    assert sniff(path).kind.value == "roaring64"


@pytest.mark.parametrize(("path", "entry"), entries("paimon/java-*", "index-32-0", "index-64-0"))
def test_paimon_index_files(path: Path, entry: dict[str, Any]) -> None:
    vectors = {vector["data_file"]: RowSet.from_ranges(vector["ranges"]) for vector in entry["vectors"]}
    names = ("data_file", "offset", "length", "cardinality")
    metas = [paimon.DeletionVectorMeta(*(vector[name] for name in names)) for vector in entry["vectors"]]
    assert paimon.read_deletion_vectors(path, metas) == vectors
    assert list(paimon.load_frames(path).values()) == list(vectors.values())
    out = io.BytesIO()
    written = paimon.write_deletion_vectors(out, vectors, layout=f"bitmap{entry['bits']}")
    assert out.getvalue() == path.read_bytes()
    assert [paimon.DeletionVectorMeta.from_location(location) for location in written] == metas
    assert verify(path).ok


@pytest.mark.parametrize(("path", "entry"), entries("paimon/java-*", "hashes-0"))
def test_paimon_hash_index(path: Path, entry: dict[str, Any]) -> None:
    assert paimon.decode_hash_index(path.read_bytes()).tolist() == entry["hashes"]
    assert paimon.encode_hash_index(entry["hashes"]) == path.read_bytes()


@pytest.mark.parametrize(("path", "entry"), entries("paimon/java-*", "index-manifest-0"))
def test_paimon_index_manifest(path: Path, entry: dict[str, Any]) -> None:
    pytest.importorskip("fastavro")
    found = paimon.read_index_manifest(path)
    assert [item.partition.hex() for item in found] == [item["partition_hex"] for item in entry["entries"]]
    for ours, theirs in zip(found, entry["entries"], strict=True):
        file = theirs["index_file"]
        assert (ours.kind, ours.bucket, ours.index_type) == (theirs["kind"], theirs["bucket"], file["index_type"])
        assert (ours.file_name, ours.file_size, ours.row_count) == (
            file["file_name"],
            file["file_size"],
            file["row_count"],
        )
        assert [[meta.data_file, meta.offset, meta.length, meta.cardinality] for meta in ours.vectors or ()] == [
            [meta["data_file"], meta["offset"], meta["length"], meta["cardinality"]] for meta in file["vectors"] or ()
        ]


@each(("path", "entry"), entries("paimon/pypaimon-*", ".dv"))
def test_pypaimon_vectors(path: Path, entry: dict[str, Any]) -> None:
    rows = RowSet.from_ranges(entry["ranges"])
    assert paimon.decode(path.read_bytes(), cardinality=len(rows)) == rows
    assert paimon.encode(rows, run_optimize=False) == path.read_bytes()

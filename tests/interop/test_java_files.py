"""Whole files: Puffin and Delta, equal to Java's and read by Java."""

from __future__ import annotations

import io
import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dvcodec import RowSet, convert, delta, iceberg, puffin
from interop.cases import row_sets
from interop.driver import Java

pytestmark = pytest.mark.interop


def puffin_cases() -> list[dict[str, Any]]:
    """Files of 1, 3 and 40 vectors, and sizes around which a Java HashMap doubles."""
    made = []
    sets = row_sets(400, seed=11)[7:]
    at = 0
    for count in (1, 3, 12, 13, 14, 24, 25, 40, 200):
        deletes = []
        for i in range(count):
            rows = sets[at][:500] if count != 40 else sets[at]
            rows = rows if len(rows) else np.array([i])
            deletes.append(
                {"data_file": f"s3://bucket/tbl/data/p={i % 3}/é-{i:05}.parquet", "positions": rows.tolist()}
            )
            at += 1
        made.append({"name": f"files-{count}", "deletes": deletes})
    one_each = [{"data_file": f"file-{i}", "positions": [i]} for i in range(13)]
    return [*made, {"name": "one-row-each-13", "deletes": one_each}, {"name": "none", "deletes": []}]


def test_puffin_files_equal_base_dv_file_writers(java: Java, tmp_path: Path) -> None:
    cases = puffin_cases()
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    java.run("puffin-write", tmp_path / "cases.json", tmp_path)
    created_by = java.versions()["iceberg-created-by"]
    for case in cases:
        vectors = {delete["data_file"]: RowSet(delete["positions"]) for delete in case["deletes"]}
        ours = tmp_path / f"{case['name']}.ours"
        locations = iceberg.write_deletion_vectors(ours, vectors, created_by=created_by)
        entries = json.loads((tmp_path / f"{case['name']}.json").read_text())
        named = [
            {key: entry[key] for key in entries[0] if key != "format"}
            for entry in map(iceberg.manifest_entry, locations)
        ]
        assert named == [{key: entry[key] for key in entry if key != "format"} for entry in entries], case["name"]
        if vectors:
            assert ours.read_bytes() == (tmp_path / f"{case['name']}.puffin").read_bytes(), case["name"]
        else:
            assert not ours.exists()
            assert not (tmp_path / f"{case['name']}.puffin").exists()


def test_java_reads_our_puffin_files(java: Java, tmp_path: Path) -> None:
    sets = row_sets(60, seed=12)
    vectors = {f"s3://b/{i}.parquet": RowSet(rows) for i, rows in enumerate(sets)}
    iceberg.write_deletion_vectors(tmp_path / "ours.puffin", vectors)
    iceberg.write_deletion_vectors(
        tmp_path / "plain.puffin", vectors, run_optimize=False, gap_keys=False, order="given"
    )
    convert(tmp_path / "ours.puffin", "delta", tmp_path / "there.bin")
    convert(
        tmp_path / "there.bin",
        "iceberg",
        tmp_path / "back.puffin",
        data_files=list(iceberg_names(tmp_path / "ours.puffin")),
    )
    puffin.rewrite_paths(
        tmp_path / "ours.puffin", tmp_path / "moved.puffin", lambda path: path.replace("s3://b", "gs://c")
    )
    names = ("ours", "plain", "back", "moved")
    for found in java.run_json("puffin-read", *(tmp_path / f"{name}.puffin" for name in names)):
        assert "error" not in found
        assert len(found["blobs"]) == len(vectors)
        for blob in found["blobs"]:
            assert "error" not in blob
            expected = vectors[blob["properties"]["referenced-data-file"].replace("gs://c", "s3://b")]
            assert blob["cardinality"] == len(expected)
            assert RowSet(blob["positions"]) == expected


def iceberg_names(path: Path) -> list[str]:
    with puffin.open_puffin(path) as reader:
        return [blob.properties["referenced-data-file"] for blob in reader.blobs]


NASTY = [
    "",
    "plain",
    'quo"te',
    "back\\slash",
    "sl/ash",
    "tab\tnew\nline\r\b\f",
    "\x00\x01\x1f\x7f",
    "é ü 漢 𝄞",
    "\u2028\u2029",
    "<&'>",
]


def test_footers_equal_javas_whatever_the_strings(java: Java, tmp_path: Path) -> None:
    blobs: list[dict[str, Any]] = [
        {
            "type": f"type-{i}-{text}",
            "fields": list(range(i)),
            "snapshot_id": i - 1,
            "sequence_number": 2**62 + i,
            "data_hex": bytes(range(i)).hex(),
            "compression": None,
            "properties": {f"k{text}": text, "": "x"} if i % 3 else {},
        }
        for i, text in enumerate(NASTY)
    ]
    for properties in ({}, {"created-by": "x"}, {text: text for text in NASTY}):
        spec = {"properties": properties, "compress_footer": False, "blobs": blobs}
        (tmp_path / "spec.json").write_text(json.dumps(spec))
        java.run("puffin-generic-write", tmp_path / "spec.json", tmp_path / "theirs.puffin")
        ours = io.BytesIO()
        with puffin.PuffinWriter(ours, properties) as writer:
            for blob in blobs:
                writer.add(
                    blob["type"],
                    bytes.fromhex(blob["data_hex"]),
                    fields=blob["fields"],
                    snapshot_id=blob["snapshot_id"],
                    sequence_number=blob["sequence_number"],
                    properties=blob["properties"],
                )
        assert ours.getvalue() == (tmp_path / "theirs.puffin").read_bytes()


def test_the_delta_kernel_reads_our_files_and_inline_vectors(java: Java, tmp_path: Path) -> None:
    vectors = {f"part-{i}.parquet": RowSet(rows) for i, rows in enumerate(row_sets(60, seed=13)[1:])}
    descriptors, expected = [], []
    for prefix in ("", "ab"):
        path = delta.new_file(str(tmp_path), prefix)
        Path(path).parent.mkdir(exist_ok=True)
        for location in delta.write_deletion_vectors(path, vectors):
            descriptors.append(delta.Descriptor.from_location(location, str(tmp_path)))
            expected.append((path, vectors[str(location.data_file)]))
    spaced = tmp_path / "with space" / "x%y.bin"
    spaced.parent.mkdir()
    for location in delta.write_deletion_vectors(spaced, dict(list(vectors.items())[:3])):
        descriptors.append(delta.Descriptor.from_location(location, str(tmp_path)))
        expected.append((str(spaced), vectors[str(location.data_file)]))
    for rows in (RowSet([3]), RowSet([3, 4, 7, 11, 18, 29]), RowSet(), RowSet([1 << 33])):
        for layout in ("portable", "native"):
            descriptors.append(delta.encode_inline(rows, layout=layout))
            expected.append(("", rows))
    specs = [json.loads(d.to_json()) | {"table_root": str(tmp_path), "offset": d.offset} for d in descriptors]
    (tmp_path / "descriptors.json").write_text(json.dumps(specs))
    found = java.run_json("delta-read", tmp_path / "descriptors.json")
    for descriptor, (path, rows), read in zip(descriptors, expected, found, strict=True):
        assert "error" not in read, (descriptor, read)
        assert RowSet(read["positions"]) == rows
        assert read["unique_id"] == descriptor.unique_id
        if not descriptor.is_inline:
            assert descriptor.path(str(tmp_path)) == path
            assert read["absolute_path"].removeprefix("file:") == path
        assert delta.load(descriptor, str(tmp_path)) == rows


def test_z85_equals_javas(java: Java) -> None:
    random = np.random.default_rng(1)
    cases = [uuid.UUID(int=i * 2**100 + i).bytes for i in range(50)]
    cases += [random.bytes(int(size)) for size in random.integers(0, 300, 200)]
    texts = java.transform("z85-encode", cases)
    for data, text in zip(cases, texts, strict=True):
        assert delta.encode_z85(data) == text.decode()
        assert delta.decode_z85(text.decode(), len(data)) == data
    for data, back in zip(
        cases, java.transform("z85-decode", [delta.encode_z85(c).encode() for c in cases]), strict=True
    ):
        assert back[: len(data)] == data

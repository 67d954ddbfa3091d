"""What wraps vectors and what names them: Puffin, descriptors, index manifests, hash indexes, Avro, compression."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from dvcodec import (
    Container,
    ContainerKind,
    DecodeError,
    RowSet,
    UsageError,
    decode,
    decode_at,
    dialects,
    iceberg,
    mumbling,
    paimon,
    read_rows,
    sniff,
    verify,
)
from dvcodec import paimon as paimon_manifest
from dvcodec import puffin as puffin_files
from dvcodec.core import avro, compress
from dvcodec.core.cursor import Cursor
from dvcodec.dialects import DIALECTS
from dvcodec.io import open_source
from dvcodec.io import source as sources
from dvcodec.ops.convert import measure
from dvcodec.ops.read import read_vector
from dvcodec.puffin import BlobMetadata, Footer, PuffinWriter, decode_footer, encode_footer
from fuzz import mend
from fuzz.seeds import files, row_sets
from fuzz.target import LIMITS, Target, check_rows, must
from fuzz.targets import frames


def _source(data: bytes) -> Any:
    view = memoryview(data)
    return sources._RangeSource("<bytes>", len(data), lambda offset, size: view[offset : offset + size])


def _run_footer(data: bytes) -> None:
    footer = decode_footer(_source(data), limits=LIMITS)
    assert 4 <= footer.offset <= len(data) - 16
    iceberg.lint(footer)
    again = b"PFA1" + encode_footer(Footer(footer.blobs, footer.properties, 4, unknown=footer.unknown))
    found = must(decode_footer, _source(again))
    if b"?" not in again:  # lone surrogates are written as question marks
        assert (found.blobs, found.properties, found.unknown) == (footer.blobs, footer.properties, footer.unknown)


def _run_puffin(data: bytes) -> None:
    vectors = iceberg.read_deletion_vectors(data, limits=LIMITS)
    for rows in vectors.values():
        check_rows(rows)
    with puffin_files.open_puffin(data, limits=LIMITS) as reader:
        for blob in reader.blobs:
            if blob.type == iceberg.BLOB_TYPE:
                assert len(must(reader.read, blob)) == blob.length
    if vectors and all((rows.max or 0) >> 32 < frames.FEW_GAPS for rows in vectors.values()):
        out = io.BytesIO()
        iceberg.write_deletion_vectors(out, vectors)
        assert must(iceberg.read_deletion_vectors, out.getvalue()) == vectors


def _puffins() -> Iterator[bytes]:
    for rows in row_sets():
        out = io.BytesIO()
        iceberg.write_deletion_vectors(out, {"s3://b/a": rows, "b": RowSet([1])})
        yield out.getvalue()
    out = io.BytesIO()
    with PuffinWriter(out, {"x": "y"}) as writer:
        writer.add("apache-datasketches-theta-v1", b"sketch", fields=[1], snapshot_id=2, sequence_number=3)
        blob = compress.compress(iceberg.encode(RowSet([1])), "zstd")
        writer.add_stored(BlobMetadata("deletion-vector-v1", (2147483645,), -1, -1, 0, 0, "zstd", {}), blob)
    yield out.getvalue()
    yield from files("**/*.puffin", "iceberg/puffin-v1/*.bin", count=16)


def _run_sniff(data: bytes) -> None:
    report = verify(data, limits=LIMITS)
    assert str(report)
    try:
        container = sniff(data, limits=LIMITS)
    except DecodeError:
        assert not report.ok
        raise
    _read_all(data, container, valid=report.ok)
    try:
        rows = decode_at(data, 0, limits=LIMITS)
    except DecodeError:
        return
    check_rows(rows)


def _read_all(data: bytes, container: Container, *, valid: bool) -> None:
    """What `verify` calls valid can be read."""
    if container.kind is ContainerKind.ZAP:
        return
    for ref in container.vectors:
        with open_source(data) as source:
            try:
                found = read_vector(source, ref, limits=LIMITS)
                rows = found.load()
            except DecodeError as error:
                assert not valid, error
                continue
        check_rows(rows)
        must(measure, found)
    if sum(ref.data_file is None for ref in container.vectors) > 1:  # the caller has to ask for them by place
        return
    try:
        read_rows(data, limits=LIMITS)
    except DecodeError as error:
        assert not valid or error.what == "referenced-data-file", error


def _all_kinds() -> Iterator[bytes]:
    for stock in (_puffins, frames._bins, frames._index_files, frames._frames_32, frames._frames_64, frames._roaring32):
        yield from list(stock())[:6]
    yield from files("lance/**/*.arrow", count=2)
    yield from files("zap/**/*.zap", count=3)


def _run_mumbling(data: bytes) -> None:
    rows = mumbling.decode(data, limits=LIMITS)
    again = mumbling.encode(rows)
    assert mumbling.decode(again, cardinality=len(rows)) == rows
    assert decode(data) == rows


def _mumblings() -> Iterator[bytes]:
    yield from (mumbling.encode(rows) for rows in row_sets() if (rows.max or 0) < mumbling.MAX_POSITIONS)
    yield mumbling.encode(RowSet([*range(40), *range(9_000, 9_031), *range(30_000, 200_000, 100)]))


def _run_dialects(data: bytes) -> None:
    """The first byte chooses the dialect."""
    dialect = DIALECTS[data[0] % len(DIALECTS)] if data else DIALECTS[0]
    rows = dialects.decode(data[1:], dialect, limits=LIMITS)
    assert dialects.decode(dialects.encode(rows, dialect), dialect) == rows


def _dialects() -> Iterator[bytes]:
    for number, dialect in enumerate(DIALECTS):
        for rows in row_sets():
            with suppress(UsageError):  # it does not fit
                yield bytes([number]) + dialects.encode(rows, dialect)


def _run_index_manifest(data: bytes) -> None:
    entries = paimon.read_index_manifest(data, limits=LIMITS)
    out = io.BytesIO()
    paimon.write_index_manifest(out, entries, codec="null")
    assert must(paimon.read_index_manifest, out.getvalue()) == entries


def _index_manifests() -> Iterator[bytes]:
    vectors = tuple(paimon.DeletionVectorMeta(f"f{i}", 1 + 40 * i, 32, i or None) for i in range(3))
    entries = [
        paimon.IndexManifestEntry(paimon.DELETION_VECTORS, "index-1", 99, 3, vectors=vectors),
        paimon.IndexManifestEntry(paimon.HASH, "index-2", 8, 2, bucket=1, external_path="s3://b/index-2"),
        paimon.IndexManifestEntry(
            "btree", "g", 8, 2, global_index=paimon.GlobalIndexMeta(0, 9, 1, (2, 3), b"meta", None)
        ),
    ]
    for codec in ("null", "deflate", "snappy", "zstandard"):
        out = io.BytesIO()
        paimon.write_index_manifest(out, entries, codec=codec)
        yield out.getvalue()
    yield from files("paimon/**/index-manifest-*", count=6)


def _run_avro(data: bytes) -> None:
    file = avro.decode(Cursor(data), limits=LIMITS)
    problem = avro.differs(file.schema, paimon_manifest.SCHEMA)
    if problem is None:  # readers check the schema before the records
        for count, record in enumerate(file.records(), 1):
            assert isinstance(record, dict)
            assert count <= LIMITS.max_metadata_bytes
    else:
        assert isinstance(problem, str)


def _avros() -> Iterator[bytes]:
    yield from _index_manifests()
    yield from files("**/*.avro", count=12)


TARGETS = (
    Target("puffin-footer", "the footer of a Puffin file", _run_footer, _puffins, mend.puffin, max_len=2048),
    Target("puffin", "a Puffin file and the vectors in it", _run_puffin, _puffins, mend.puffin, max_len=2048),
    Target("sniff", "a file of unknown kind: named, verified, read", _run_sniff, _all_kinds, mend.puffin, max_len=2048),
    Target("mumbling", "a Mumbling bitmap", _run_mumbling, _mumblings),
    Target("dialects", "a bitmap in a dialect of roaring", _run_dialects, _dialects),
    Target(
        "index-manifest",
        "an index manifest (Avro)",
        _run_index_manifest,
        _index_manifests,
        mend.avro,
        mend.avro_records,
        max_len=4096,
    ),
    Target("avro", "an Avro container", _run_avro, _avros, mend.avro, max_len=8192),
)

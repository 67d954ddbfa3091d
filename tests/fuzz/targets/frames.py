"""Vectors: the frame that three formats share, its payloads, files of frames, and many at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from dvcodec import DecodeError, RowSet, delta, iceberg, paimon
from dvcodec.core import batch, roaring, vector
from dvcodec.core.batch import expand, survey
from dvcodec.core.cursor import Cursor
from dvcodec.core.roaring import MAX_KEY
from dvcodec.core.vector import Magic
from dvcodec.delta import read_inline
from dvcodec.ops.convert import measure
from fuzz import mend
from fuzz.seeds import files, row_sets, small_row_sets
from fuzz.target import LIMITS, MANY, Target, check_rows, must

FEW_GAPS = 1 << 10
_INT32 = 2**31


def _framed(decode: Callable[..., RowSet], encode: Callable[[RowSet], bytes]) -> Callable[[bytes], object]:
    """Decode a frame; what it walks to, what it loads to and what is written of it are the same rows."""

    def run(data: bytes) -> None:
        rows = decode(data, limits=LIMITS)
        check_rows(rows)
        walked = must(vector.read, Cursor(data), limits=LIMITS)
        assert (walked.cardinality, walked.view.min, walked.view.max) == (rows.cardinality, rows.min, rows.max)
        must(walked.check)
        assert must(measure, walked).cardinality == rows.cardinality
        if (rows.max or 0) >> 32 < FEW_GAPS:
            again = encode(rows)
            assert must(decode, again, limits=LIMITS, cardinality=rows.cardinality) == rows
            assert encode(must(decode, again, limits=LIMITS)) == again

    return run


def _paimon(rows: RowSet) -> bytes:
    return paimon.encode(rows, layout="bitmap32" if (rows.max or 0) < _INT32 else "bitmap64")


def _frames_32() -> Iterator[bytes]:
    yield from (paimon.encode(rows) for rows in small_row_sets() if (rows.max or 0) < _INT32)
    yield from files("paimon/pypaimon-*/*.dv")


def _frames_64() -> Iterator[bytes]:
    yield from map(iceberg.encode, row_sets())
    yield from files("iceberg/**/*.dv")


def _frames_delta() -> Iterator[bytes]:
    yield from map(delta.encode, row_sets())
    yield from (delta.encode(rows, layout="native") for rows in row_sets())


def _run_inline(data: bytes) -> None:
    size = int.from_bytes(data[:2], "little")
    text = data[2:].decode("utf-8", "surrogateescape")
    size_in_bytes = None if size == 0xFFFF else size
    rows = delta.decode_inline(text, size_in_bytes, limits=LIMITS)
    check_rows(rows)
    assert must(read_inline, text, size_in_bytes, limits=LIMITS).cardinality == rows.cardinality
    if (rows.max or 0) >> 32 < FEW_GAPS:
        again = delta.encode_inline(rows)
        if rows:
            assert must(delta.decode_inline, again.path_or_inline_dv, again.size_in_bytes) == rows


def _inline() -> Iterator[bytes]:
    for rows in row_sets():
        for layout in ("portable", "native"):
            found = delta.encode_inline(rows, layout=layout)
            if found.size_in_bytes < 0xFFFF:
                yield found.size_in_bytes.to_bytes(2, "little") + found.path_or_inline_dv.encode()
    yield b"\xff\xff" + delta.encode_inline(RowSet([3, 4, 7])).path_or_inline_dv.encode()


def _file_of_frames(read: Callable[..., dict[int, RowSet]]) -> Callable[[bytes], object]:
    def run(data: bytes) -> None:
        last = 0
        for offset, rows in read(data, limits=LIMITS).items():
            assert offset > last
            last = offset
            check_rows(rows)

    return run


def _bins() -> Iterator[bytes]:
    for layout in ("portable", "native"):
        frames = [delta.encode(rows, layout=layout) for rows in row_sets()]
        yield b"\1" + frames[1] + frames[3]
        yield b"\1" + b"".join(frames[:5])
    yield b"\1"


def _index_files() -> Iterator[bytes]:
    sets = [rows for rows in small_row_sets() if (rows.max or 0) < _INT32]
    for bits in (32, 64):
        frames = [paimon.encode(rows, layout=f"bitmap{bits}") for rows in sets]
        yield b"\1" + frames[1] + frames[2]
        yield b"\1" + b"".join(frames[:6])
    yield from files("paimon/**/index-*", most=2048, count=8)


def _run_roaring32(data: bytes) -> None:
    cursor = Cursor(data)
    view = roaring.walk(cursor)
    LIMITS.check("max_cardinality", view.cardinality, cursor)
    view.check()
    bitmap = must(view.load)
    rows = RowSet.from_bitmaps({0: bitmap} if bitmap else {})
    check_rows(rows)
    assert view.cardinality == len(bitmap)
    if bitmap:
        for optimize in (True, False):
            again = Cursor(roaring.serialize(bitmap, run_optimize=optimize))
            assert must(must(roaring.walk, again).load) == bitmap
            assert not again.remaining


def _roaring32() -> Iterator[bytes]:
    for rows in small_row_sets():
        if rows:
            yield roaring.serialize(rows.bitmaps[0])
            yield roaring.serialize(rows.bitmaps[0], run_optimize=False)
    yield from files("roaring/**/*32*", "roaring/**/bitmap*.bin", "lance/**/*.bin", count=24)


def _run_roaring64(data: bytes) -> None:
    view = roaring.walk64(Cursor(data), limits=LIMITS, max_key=MAX_KEY)
    view.check()
    bitmaps = must(view.load)
    assert sum(map(len, bitmaps.values())) == view.cardinality
    assert all(bitmaps.values())
    if max(bitmaps, default=0) < _INT32:
        check_rows(RowSet.from_bitmaps(bitmaps))
    if max(bitmaps, default=0) < FEW_GAPS:
        for gaps in (True, False):
            again = b"".join(roaring.pieces_of(RowSet.from_bitmaps(bitmaps).serialized(), gap_keys=gaps))
            assert must(roaring.walk64, Cursor(again), max_key=MAX_KEY).load() == bitmaps


def _roaring64() -> Iterator[bytes]:
    yield from (vector.encode_payload(rows, Magic.PORTABLE64) for rows in row_sets())
    yield from files("roaring/**/*.roaring64", "roaring/**/*64*.bin", count=24)


def _run_batch(data: bytes) -> None:
    """Many at once say of each what one by one says."""
    cuts = [0]
    while len(data) - cuts[-1] >= 4 and len(cuts) < 16:
        size = int.from_bytes(data[cuts[-1] : cuts[-1] + 4], "big") + 8
        cuts.append(min(cuts[-1] + size, len(data)))
    bounds = np.array(cuts, np.int64)
    starts, sizes = bounds[:-1], np.diff(bounds)
    found = survey(data, starts, sizes, limits=LIMITS)
    valid: list[RowSet] = []
    for i, (a, b) in enumerate(zip(starts.tolist(), bounds[1:].tolist(), strict=True)):
        try:
            rows = vector.read(Cursor(data[a:b], base=a), limits=LIMITS).load()
        except DecodeError as error:
            assert str(found.errors[i]) == str(error)
            continue
        assert i not in found.errors
        assert (found.cardinality[i], found.min[i], found.max[i]) == (
            rows.cardinality,
            -1 if rows.min is None else rows.min,
            -1 if rows.max is None else rows.max,
        )
        valid.append(rows)
    if len(valid) == len(starts) and sum(rows.cardinality for rows in valid) <= MANY:
        values, counts = must(expand, data, starts, sizes, limits=LIMITS)
        assert counts.tolist() == [rows.cardinality for rows in valid]
        assert values.tolist() == [row for rows in valid for row in rows.to_numpy().tolist()]
        if all((rows.max or 0) >> 32 < FEW_GAPS for rows in valid):
            assert batch.encode(values, counts).to_list() == [iceberg.encode(rows) for rows in valid]


def _mend_batch(data: bytes) -> bytes:
    return mend.frames(b"\1" + data)[1:]


def _batches() -> Iterator[bytes]:
    for seed in (*_bins(), *_index_files()):
        yield seed[1:]


TARGETS = (
    Target(
        "iceberg",
        "a deletion-vector-v1 blob",
        _framed(iceberg.decode, iceberg.encode),
        _frames_64,
        mend.frame,
        keeps_size=True,
    ),
    Target(
        "delta",
        "a framed vector, portable or native",
        _framed(delta.decode, delta.encode),
        _frames_delta,
        mend.frame,
        keeps_size=True,
    ),
    Target(
        "paimon-32", "a framed 32-bit vector", _framed(paimon.decode, _paimon), _frames_32, mend.frame, keeps_size=True
    ),
    Target("batch", "many framed vectors at once", _run_batch, _batches, _mend_batch, keeps_size=True),
    Target("roaring-32", "a 32-bit portable bitmap", _run_roaring32, _roaring32, keeps_size=True),
    Target("roaring-64", "a 64-bit portable bitmap", _run_roaring64, _roaring64, keeps_size=True),
    Target("delta-inline", "an inline vector: size and Z85 text", _run_inline, _inline),
    Target(
        "delta-bin", "a file of framed vectors", _file_of_frames(delta.load_frames), _bins, mend.frames, keeps_size=True
    ),
    Target(
        "paimon-index",
        "a deletion-vector index file",
        _file_of_frames(paimon.load_frames),
        _index_files,
        mend.frames,
        keeps_size=True,
    ),
)

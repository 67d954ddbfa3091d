"""Lance: sequences, deletion files, address maps, the manifest and transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from dvcodec import DecodeError, LimitExceeded, RowSet, lance
from fuzz import mend
from fuzz.seeds import files, small_row_sets
from fuzz.target import LIMITS, MANY, Target, check_rows, must

TOP = 2**64


def _run_row_ids(data: bytes) -> None:
    found = lance.decode_row_ids(data)
    assert lance.encode_row_ids(found) == data
    count = found.count
    assert 0 <= count <= TOP
    assert found.get(count) is None
    if not count:
        return
    first = found.get(0)
    assert first is not None
    assert found.position(first) == 0
    assert found.get(count - 1) is not None
    if count > MANY:
        with suppress(LimitExceeded):
            found.to_numpy(max_rows=MANY)
            raise AssertionError("more rows than asked for")
        return
    ids = found.to_numpy(max_rows=MANY)
    assert len(ids) == count
    assert int(ids[-1]) == found.get(count - 1)
    if len(np.unique(ids)) == count:
        again = lance.RowIdSequence.from_values(ids)
        assert np.array_equal(must(lance.decode_row_ids, lance.encode_row_ids(again)).to_numpy(), ids)
        half = count // 2
        assert np.array_equal(found.slice(half, count - half).to_numpy(), ids[half:])
        assert np.array_equal(found.mask([0]).to_numpy(), ids[1:])


def _row_ids() -> Iterator[bytes]:
    for ids in (
        [],
        range(10),
        [*range(50), *range(51, 70)],
        [*range(0, 200, 2)],
        [5, 3, 9, 1],
        [1, 70_000, 5_000_000_000],
        [2**64 - 1],
        [0, *range(100, 164), 166],
    ):
        yield lance.encode_row_ids(lance.RowIdSequence.from_values(list(ids)))
    two = (range(10), [7000, 20, 30])
    yield b"".join(lance.encode_row_ids(lance.RowIdSequence.from_values(list(ids))) for ids in two)


def _run_deletions(data: bytes) -> None:
    rows = lance.read_deletion_file(data, limits=LIMITS)
    check_rows(rows)
    assert must(lance.read_deletion_file, data, num_deleted_rows=rows.cardinality, limits=LIMITS) == rows


def _arrow_files() -> Iterator[bytes]:
    return iter(files("**/_deletions/*.arrow", "lance/**/*.arrow", count=12))


def _run_addresses(data: bytes) -> None:
    found = lance.decode_row_addr_map(data, limits=LIMITS)
    again = must(lance.decode_row_addr_map, lance.encode_row_addr_map(found))
    assert again.fragments == found.fragments
    for rows in found.fragments.values():
        if rows is not None:
            check_rows(rows)


def _addresses() -> Iterator[bytes]:
    yield from files("lance/**/row-addresses-*.bin", count=8)
    sets = [rows for rows in small_row_sets() if rows]
    yield lance.encode_row_addr_map(lance.RowAddrMap({0: sets[0], 3: None, 2**32 - 1: sets[1]}))
    yield lance.encode_row_addr_map(lance.RowAddrMap.from_row_set(RowSet([1, 2**32 + 5])))


def _run_manifest(data: bytes) -> None:
    manifest = lance.read_manifest(data, limits=LIMITS)
    for fragment in manifest.fragments[:8]:
        for stored, read in (
            (fragment.row_ids, fragment.row_id_sequence),
            (fragment.created_at, fragment.created_at_versions),
            (fragment.last_updated_at, fragment.last_updated_at_versions),
        ):
            if stored is not None and stored.inline is not None:
                with suppress(DecodeError):
                    sequence = read()
                    assert not fragment.physical_rows or sequence.count == fragment.physical_rows
        if fragment.deletion_file is not None:
            with suppress(DecodeError):
                assert fragment.deletion_file.path("d").startswith("d/_deletions/")


def _manifests() -> Iterator[bytes]:
    return iter(files("**/_versions/*.manifest", most=3000, count=24))


TARGETS = (
    Target("lance-row-ids", "a RowIdSequence", _run_row_ids, _row_ids, mutate=mend.message, max_len=512),
    Target("lance-arrow", "a deletion file, Arrow", _run_deletions, _arrow_files, max_len=2048, keeps_size=True),
    Target("lance-addresses", "a row-address map", _run_addresses, _addresses),
    Target(
        "lance-manifest",
        "a manifest and the sequences in it",
        _run_manifest,
        _manifests,
        mend.lance_file,
        mend.lance_manifest,
        max_len=4096,
    ),
)

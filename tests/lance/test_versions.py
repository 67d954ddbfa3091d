"""Version sequences: real ones, runs that count by length alone, and what is refused."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amounts import examples
from dvcodec import NotCanonical
from dvcodec.lance import (
    RowDatasetVersionSequence,
    VersionRun,
    decode_versions,
    encode_versions,
)
from samples.lance import TOP, Seg, message, segments

versions = st.one_of(st.integers(0, 300), st.sampled_from([2**32, 2**63, TOP]))
runs = st.lists(st.tuples(segments, versions), max_size=6)


def run_bytes(parts: list[tuple[Seg, int]]) -> bytes:
    entries = [message("VersionRun", span=span.message(), version=version) for span, version in parts]
    data: bytes = message("VersionSequence", runs=entries).SerializeToString()
    return data


@settings(max_examples=examples(200))
@given(runs)
def test_sequence_is_its_list(parts: list[tuple[Seg, int]]) -> None:
    data = run_bytes(parts)
    found = decode_versions(data)
    model = [version for span, version in parts for _ in span.values()]
    assert found.runs == tuple(VersionRun(span.ours(), version) for span, version in parts)
    assert encode_versions(found) == data
    assert encode_versions(RowDatasetVersionSequence(found.runs)) == data
    assert found.to_numpy().tolist() == model
    assert found.to_numpy().dtype == np.uint64
    assert found.count == len(found) == len(model)
    assert [found.get(i) for i in range(-1, len(model) + 1)] == [None, *model, None]
    for run, (span, _) in zip(found.runs, parts, strict=True):
        assert run.count == len(span.values())


@given(st.lists(st.one_of(st.integers(0, 3), versions), max_size=40))
def test_from_versions(values: list[int]) -> None:
    found = RowDatasetVersionSequence.from_versions(values)
    at, wanted = 0, []
    for version, group in groupby(values):
        size = len(list(group))
        wanted.append((Seg("range", at, at + size), version))
        at += size
    assert encode_versions(found) == run_bytes(wanted)
    assert found.to_numpy().tolist() == values
    assert RowDatasetVersionSequence.from_versions(np.array(values, np.uint64)) == found
    assert decode_versions(encode_versions(found)) == found


def test_too_many_rows() -> None:
    whole = message("VersionRun", span=Seg("range", 0, TOP).message(), version=1)
    one = message("VersionRun", span=Seg("range", 0, 1).message(), version=2)
    data = message("VersionSequence", runs=[whole]).SerializeToString()
    found = decode_versions(data)
    assert found.count == TOP
    assert found.get(2**63) == 1
    with pytest.raises(NotCanonical) as caught:
        decode_versions(message("VersionSequence", runs=[whole, one]).SerializeToString())
    assert (caught.value.what, caught.value.offset, caught.value.actual) == ("rows", len(data), TOP + 1)


def test_a_run_has_a_span() -> None:
    data = message("VersionSequence", runs=[message("VersionRun", version=2)]).SerializeToString()
    with pytest.raises(NotCanonical, match="run: expected a span") as caught:
        decode_versions(data)
    assert caught.value.offset == 2

"""Which versions a folder of log files holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dvcodec.core.errors import UsageError
from dvcodec.tables.delta.log import Log

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def commit(version: int) -> str:
    return f"{version:020}.json"


def classic(version: int) -> str:
    return f"{version:020}.checkpoint.parquet"


def part(version: int, number: int, count: int) -> str:
    return f"{version:020}.checkpoint.{number:010}.{count:010}.parquet"


def log_of(*names: str) -> Log:
    return Log.from_names("log", names)


def test_a_gap_below_a_checkpoint_hides_versions() -> None:
    log = log_of(commit(0), commit(1), commit(3), classic(4), commit(5))
    assert log.versions == (0, 1, 4, 5)
    assert log.latest == 5
    with pytest.raises(UsageError, match="version 3 cannot be rebuilt, version 2 is missing"):
        log.check(3)


def test_parts_count_when_all_are_there() -> None:
    whole = log_of(part(3, 2, 2), part(3, 1, 2))
    assert whole.checkpoints == {3: ((part(3, 1, 2), part(3, 2, 2)),)}
    assert len(whole.names) == 2
    for names in ([part(3, 1, 2)], [part(3, 1, 2), part(3, 3, 2)], [part(3, 0, 1)], [part(3, 1, 10**10 - 1)]):
        left = log_of(*names)
        assert left.checkpoints == {}
        assert not left.names


def test_several_checkpoints_of_a_version() -> None:
    names = [f"{3:020}.checkpoint.{UUID}.json", classic(3), part(3, 1, 1)]
    log = log_of(*names)
    assert sorted(log.checkpoints[3]) == sorted((name,) for name in names)
    assert log.names == frozenset(names)


def test_names() -> None:
    kept = {commit(1), classic(1), f"{1:020}.crc", f"{1:020}.{4:020}.compacted.json", "_last_checkpoint"}
    other = {
        "1.json",
        f".{commit(1)}.crc",
        f"{commit(1)}.tmp",
        f"{1:020}.checkpoint.json",
        f"{1:020}.{UUID}.json",
        "_sidecars",
        "_staged_commits",
        "\N{ARABIC-INDIC DIGIT ZERO}" * 20 + ".json",
    }
    assert log_of(*kept, *other).names == kept


@given(st.sets(st.integers(0, 12)), st.sets(st.integers(0, 12)))
def test_versions_are_those_that_check_passes(commits: set[int], checkpoints: set[int]) -> None:
    log = log_of(*map(commit, commits), *map(classic, checkpoints))

    def rebuilt(version: int) -> bool:
        if version in checkpoints:
            return True
        return version in commits and (version == 0 or rebuilt(version - 1))

    assert log.versions == tuple(version for version in range(13) if rebuilt(version))
    for version in range(13):
        if rebuilt(version):
            log.check(version)
        else:
            with pytest.raises(UsageError):
                log.check(version)

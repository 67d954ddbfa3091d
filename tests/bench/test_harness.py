from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

# Not on the path for longer: bench/spark.py would hide the folder of that name here.
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from harness import Comparison, Figure, Peer, Timed, fallen, measure, measure_against

sys.path.pop(0)


def costs(*seconds: float) -> Timed:
    """Work that takes so long, turn by turn; the first is the warm-up."""
    turns = iter(seconds)
    return lambda _: next(turns)


def comparison(ours: Timed, *peers: Peer, **more: Any) -> Comparison:
    return Comparison("decode", "a", 1000, "positions", ours, peers, **more)


FIGURE = Figure("decode", "a", 1000, "positions", "seconds", 0.5, "peer", 1.0, 2.0, 1.5, True, "")


def test_ratios_are_of_the_times_of_one_round() -> None:
    peer = Peer("peer", costs(9.0, 2.0, 8.0, 3.0), at_least=2.5, guards=True)
    (figure,) = measure(comparison(costs(9.0, 1.0, 2.0, 3.0), peer), rounds=3)
    assert (figure.ours, figure.theirs) == (2.0, 3.0)
    assert figure.ratio == 2.0  # of 2, 4 and 1
    assert figure.asked == 2.5
    assert figure.is_met is False
    assert figure.guards
    assert figure.key == "decode | a | peer"


@pytest.mark.parametrize(
    ("ratio", "baseline", "said"),
    [
        (2.0, {FIGURE.key: 2.0}, []),
        (1.3, {FIGURE.key: 2.0}, []),
        (1.1, {FIGURE.key: 2.0}, ["decode | a | peer: 1.10 times the peer's speed, 2.00 before"]),
        (2.0, {}, ["decode | a | peer: not in the baseline"]),
        (
            2.0,
            {FIGURE.key: 2.0, "gone": 1.0},
            ["gone: not measured"],
        ),
    ],
)
def test_a_fall_of_more_than_40_percent_is_reported(ratio: float, baseline: dict[str, float], said: list[str]) -> None:
    assert fallen([replace(FIGURE, ratio=ratio)], baseline) == said


def test_what_fell_is_measured_again_and_the_best_counts() -> None:
    def run(*ours: float) -> list[Figure]:
        peer = Peer("peer", lambda _: 2.0, guards=True)
        return measure_against(comparison(costs(*ours), peer), 1, {FIGURE.key: 2.0})

    assert [figure.ratio for figure in run(9.0, 1.0)] == [2.0]  # each time one to warm up and one that counts
    assert [figure.ratio for figure in run(9.0, 4.0, 9.0, 1.6)] == [1.25]
    assert [figure.ratio for figure in run(9.0, 4.0, 9.0, 2.5, 9.0, 5.0, 9.0, 4.0)] == [0.8]

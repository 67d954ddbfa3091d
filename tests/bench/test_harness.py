from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

# Not on the path for longer: bench/spark.py would hide the folder of that name here.
sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from harness import Comparison, Figure, Peer, Timed, fallen, measure, measure_against, timed
from report import chart, line, table

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


def test_quick_work_is_run_many_times_and_slow_work_in_few_rounds() -> None:
    asked: dict[str, list[int]] = {"quick": [], "slow": []}

    def run(name: str, seconds: float) -> Timed:
        def work(times: int) -> float:
            asked[name].append(times)
            return seconds

        return work

    list(measure(comparison(run("quick", 0.001), Peer("slow", run("slow", 5.0))), rounds=6))
    assert asked["quick"] == [1, *[50] * 6]
    assert asked["slow"] == [1, *[1] * 3]


def test_a_speed_of_its_own_is_a_figure_of_its_own() -> None:
    alone = comparison(costs(1.0, 0.01, 0.01, 0.01), per_second=50_000.0)
    (figure,) = measure(alone, rounds=3)
    assert figure.peer is None
    assert figure.ratio == pytest.approx(2.0)
    assert figure.is_met is True
    assert figure.key == "decode | a | itself"
    (figure,) = measure(replace(alone, ours=costs(1.0, 0.01), per_second=None), rounds=1)
    assert figure.ratio is None
    assert figure.is_met is None


def test_memory_is_compared_like_time() -> None:
    peer = Peer("the positions", costs(8000.0, 8000.0), at_least=0.5)
    (figure,) = measure(comparison(costs(12000.0, 12000.0), peer, cost="bytes"), rounds=1)
    assert figure.ratio == pytest.approx(2 / 3)
    assert "12.00 bytes each" in line(figure)
    assert "| 0.0 MB |" in table([figure])


def test_work_is_timed() -> None:
    calls: Iterator[int] = iter(range(5))
    assert timed(lambda: next(calls))(5) >= 0
    assert next(calls, None) is None


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


def test_what_does_not_guard_is_not_looked_at() -> None:
    assert fallen([replace(FIGURE, guards=False)], {}) == []


def test_a_line_says_what_is_missed() -> None:
    assert "2.00 x peer (asked 1.5)" in line(FIGURE)
    assert "MISSED" not in line(FIGURE)
    assert "2.00 x peer (asked 3) MISSED" in line(replace(FIGURE, asked=3.0))
    assert "500.00 ms 2 k positions/s" in line(FIGURE)
    alone = replace(FIGURE, peer=None, theirs=None, ratio=0.7, asked=1.0)
    assert "0.70 of what is asked MISSED" in line(alone)


def test_the_table_has_the_reasons_of_what_is_missed() -> None:
    missed = replace(FIGURE, peer="other", asked=3.0, why_missed="that is all there is")
    others = [replace(missed, data="b", why_missed=""), replace(missed, data="c")]
    lines = table([FIGURE, missed, *others]).splitlines()
    assert lines[2] == "| decode | a | 500.00 ms | 2 k positions/s | peer | 1000.00 ms | 2.00 | 1.5 |"
    assert lines[3] == "|  | a | 500.00 ms | 2 k positions/s | other | 1000.00 ms | **2.00** | 3 |"
    assert lines[-2:] == ["- decode (a); decode (c): that is all there is", "- decode (b): no reason is known"]


def test_the_chart_has_a_bar_for_each_ratio() -> None:
    drawn = chart([FIGURE, replace(FIGURE, ratio=0.01, peer="<b>"), replace(FIGURE, peer=None)])
    assert drawn.count("<rect") == 3  # the ground, and two bars
    assert "&lt;b&gt;" in drawn
    assert drawn.startswith("<svg")
    assert drawn.endswith("</svg>\n")

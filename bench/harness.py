"""Times dvcodec and its peers on the same bytes, in turn, in one run, so that noise on the machine affects all of them.

A `Timed` runs its work a given number of times and returns how long one run took, by its own clock: work in this
process is timed here, a peer's work in another process there, after its warm-up. The two times of one round give a
ratio; the median over the rounds is shown.

Memory is compared in the same way: a run then costs bytes instead of seconds.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

Timed: TypeAlias = Callable[[int], float]
"""Number of runs -> seconds of one (or bytes, see `Comparison.cost`)."""
Cost: TypeAlias = Literal["seconds", "bytes"]

_LEAST_SECONDS = 0.05
"""Shortest round of a task: shorter work is run several times."""
_MOST_SECONDS = 2.0
"""Above this, a task is run in fewer rounds."""
_SLOW_ROUNDS = 3
_FALL = 0.4
"""The share that a guarded ratio may lose."""
_TRIES = 4
"""How often a line that fell is measured: noise affects some runs, a real slowdown affects all of them."""


def timed(work: Callable[[], object]) -> Timed:
    """Time work of this process."""

    def run(times: int) -> float:
        start = time.perf_counter()
        for _ in range(times):
            work()
        return (time.perf_counter() - start) / times

    return run


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer that dvcodec is compared with.

    `at_least` is the target, as a multiple of the peer's speed; None: the ratio is only shown. `guards`: the peer runs
    in this process at a steady speed, so that the ratio can guard against slowdowns.
    """

    name: str
    run: Timed
    at_least: float | None = None
    guards: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the table: what is done, to which data, by whom.

    `per_second` is the target for dvcodec itself, in units per second. `cost` is what the runs return.
    """

    row: str
    data: str
    count: int
    unit: str
    ours: Timed
    peers: tuple[Peer, ...] = ()
    per_second: float | None = None
    why_missed: str = ""
    cost: Cost = "seconds"


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured line. Without a peer it is dvcodec's own speed, and `ratio` is relative to `asked` units per second.

    `ours` and `theirs` are the median costs of one run, in seconds or bytes, and `count` is the units of a run.
    """

    row: str
    data: str
    count: int
    unit: str
    cost: Cost
    ours: float
    peer: str | None
    theirs: float | None
    ratio: float | None
    asked: float | None
    guards: bool
    why_missed: str

    @property
    def key(self) -> str:
        """The key of this line in a baseline."""
        return f"{self.row} | {self.data} | {self.peer or 'itself'}"

    @property
    def is_met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        return None if self.asked is None or self.ratio is None else self.ratio >= self.asked

    def to_json(self) -> dict[str, Any]:
        """Return the figure as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Summary:
    """A line of the table over all runs.

    Attributes:
        figure: the line, with the medians of the costs and of the ratio.
        lowest: the lowest ratio of a run; None without a peer.
        highest: the highest.
        runs: number of runs that have the line.
    """

    figure: Figure
    lowest: float | None
    highest: float | None
    runs: int


def measure(comparison: Comparison, rounds: int) -> Iterator[Figure]:
    """Run dvcodec and the peers in turn, and compare each peer with dvcodec's time in the same round."""
    tasks = {"": comparison.ours} | {peer.name: peer.run for peer in comparison.peers}
    once = {name: run(1) for name, run in tasks.items()}  # warms caches too
    times = {name: max(1, round(_LEAST_SECONDS / max(took, 1e-7))) for name, took in once.items()}
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    gc.collect()
    gc.freeze()  # objects left by earlier rows are not this row's work
    for turn in range(rounds):
        for name, run in tasks.items():
            if turn < _SLOW_ROUNDS or once[name] < _MOST_SECONDS:
                seconds[name].append(run(times[name]))
    ours = statistics.median(seconds[""])
    told = Figure(
        row=comparison.row,
        data=comparison.data,
        count=comparison.count,
        unit=comparison.unit,
        cost=comparison.cost,
        ours=ours,
        peer=None,
        theirs=None,
        ratio=None,
        asked=None,
        guards=False,
        why_missed=comparison.why_missed,
    )
    if comparison.per_second is not None:
        yield replace(told, ratio=comparison.count / ours / comparison.per_second, asked=1.0)
    elif not comparison.peers:
        yield told
    for peer in comparison.peers:
        theirs = seconds[peer.name]
        yield replace(
            told,
            peer=peer.name,
            theirs=statistics.median(theirs),
            ratio=statistics.median(their / our for their, our in zip(theirs, seconds[""], strict=False)),
            asked=peer.at_least,
            guards=peer.guards,
        )


def measure_against(comparison: Comparison, rounds: int, baseline: dict[str, float]) -> list[Figure]:
    """Measure, and repeat what fell below the baseline (ratios by `Figure.key`); the best of each line counts."""
    best = list(measure(comparison, rounds))
    for _ in range(_TRIES - 1):
        if not any(_fell(figure, baseline) for figure in best):
            break
        again = measure(comparison, rounds)
        best = [max(pair, key=lambda figure: figure.ratio or 0) for pair in zip(best, again, strict=True)]
    return best


def _fell(figure: Figure, baseline: dict[str, float]) -> bool:
    before = baseline.get(figure.key)
    if before is None or figure.ratio is None or not figure.guards:
        return False
    return figure.ratio < (1 - _FALL) * before


def fallen(figures: Iterable[Figure], baseline: dict[str, float]) -> list[str]:
    """Return the guarded ratios that fell by more than 40 % since the baseline was taken.

    Args:
        figures: as measured now.
        baseline: ratios by `Figure.key`.

    Returns:
        A line for each ratio that fell, and for each that the baseline has and this run lacks.
    """
    found = {figure.key: figure for figure in figures if figure.guards and figure.ratio is not None}
    lines = [f"{key}: not measured" for key in baseline.keys() - found.keys()]
    lines += [f"{key}: not in the baseline" for key in found.keys() - baseline.keys()]
    lines += [
        f"{key}: {figure.ratio:.2f} times the peer's speed, {baseline[key]:.2f} before"
        for key, figure in found.items()
        if _fell(figure, baseline)
    ]
    return sorted(lines)

"""Times tasks in turn, so that a noisy machine is noisy for all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

Task = Callable[[], object]

ROUNDS = 7


def medians(tasks: dict[str, Task]) -> dict[str, float]:
    """Run all tasks in turn, several rounds; milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(ROUNDS):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            times[name].append(1000 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}

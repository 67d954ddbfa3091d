"""A session of two cores, and what is measured of the jobs in it: time, shuffle bytes, memory of the Python workers."""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from dvcodec.spark import register

MILLION = 1_000_000


@dataclass(frozen=True)
class Measured:
    """One line of the table: medians of the rounds."""

    group: str
    plan: str
    seconds: float
    unit: str
    per_second: float
    shuffle_mib: float
    worker_mib: float


def session() -> SparkSession:
    """Two cores, as the figures in docs/performance.md."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("dvcodec bench")
    for key, value in {
        "spark.sql.shuffle.partitions": "16",  # the 200 of a cluster cost every plan seconds here
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "6g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    register(made)
    return made


class Memory(threading.Thread):
    """Watches the Python workers that the JVM of this process has started."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_mib = 0.0
        self._stop_asked = threading.Event()

    def run(self) -> None:
        while not self._stop_asked.wait(0.1):
            self.peak_mib = max([self.peak_mib, *(_resident_mib(pid) for pid in _workers())])

    def finish(self) -> float:
        self._stop_asked.set()
        self.join()
        return self.peak_mib


def _workers() -> list[int]:
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                command = Path(entry.path, "cmdline").read_bytes()
            except OSError:
                continue
            if b"pyspark.daemon" in command or b"pyspark/python/lib" in command:
                found.append(int(entry.name))
    return found


def _resident_mib(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def shuffled_mib(spark: SparkSession) -> float:
    """Shuffle bytes written since the session began, as Spark's own status pages count them."""
    url = spark.sparkContext.uiWebUrl
    with urllib.request.urlopen(f"{url}/api/v1/applications/{spark.sparkContext.applicationId}/stages") as answer:
        stages = json.load(answer)
    return float(sum(stage["shuffleWriteBytes"] for stage in stages)) / (1 << 20)


Plans: TypeAlias = dict[str, tuple[int, Callable[[], DataFrame]]]
"""Name -> at most so many rounds, and what makes the plan (some look at the data for it)."""


def drain(df: DataFrame) -> None:
    """Run a DataFrame to its end and throw the rows away."""
    df.write.format("noop").mode("overwrite").save()


class Bench:
    """Runs plans in turn and collects their medians."""

    def __init__(self, spark: SparkSession, rounds: int) -> None:
        self.spark = spark
        self.rounds = rounds
        self.lines: list[Measured] = []

    def compare(self, group: str, count: int, unit: str, plans: Plans) -> None:
        """Time plans side by side.

        Args:
            group: heading.
            count: things a plan works off.
            unit: what they are.
            plans: each is run to its end, the rows thrown away.
        """
        seconds: dict[str, list[float]] = {name: [] for name in plans}
        shuffled: dict[str, float] = {}
        peaks = dict.fromkeys(plans, 0.0)
        for turn in range(self.rounds):
            for name, (most, plan) in plans.items():
                if turn < most:
                    took, shuffled[name], peak = self._measure(lambda plan=plan: drain(plan()))  # type: ignore[misc]
                    seconds[name].append(took)
                    peaks[name] = max(peaks[name], peak)
        for name, times in seconds.items():
            middle = statistics.median(times)
            self._add(Measured(group, name, middle, unit, count / middle, shuffled[name], peaks[name]))

    def once(self, group: str, name: str, count: int, unit: str, act: Callable[[], object]) -> None:
        """Time something once."""
        took, shuffled, peak = self._measure(act)
        self._add(Measured(group, name, took, unit, count / took, shuffled, peak))

    def warm(self) -> None:
        """Start the Python workers."""
        self.spark.range(2).repartition(2).mapInArrow(lambda batches: batches, "id long").count()

    def _measure(self, act: Callable[[], object]) -> tuple[float, float, float]:
        before, memory = shuffled_mib(self.spark), Memory()
        memory.start()
        began = time.perf_counter()
        act()
        took = time.perf_counter() - began
        return took, shuffled_mib(self.spark) - before, memory.finish()

    def _add(self, line: Measured) -> None:
        self.lines.append(line)
        print(
            f"{line.group:24} {line.plan:28} {line.seconds:8.2f} s {line.per_second / MILLION:8.3f} M {line.unit}/s"
            f" {line.shuffle_mib:8.1f} MiB shuffled {line.worker_mib:6.0f} MiB a worker",
            flush=True,
        )

"""A session of two cores that measures its jobs: time, shuffle bytes, memory of the Python workers."""

from __future__ import annotations

import json
import os
import re
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
    """One line of the table: medians of the rounds; `jvm_ns` and `python_ns` are processor time per unit."""

    group: str
    plan: str
    seconds: float
    unit: str
    per_second: float
    shuffle_mib: float
    worker_mib: float
    jvm_ns: float
    python_ns: float


def session() -> SparkSession:
    """Start a session of two cores, as for the figures in docs/performance.md."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("dvcodec bench")
    for key, value in {
        "spark.sql.shuffle.partitions": "16",  # the default of 200 costs every plan seconds here
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
    """Shuffle bytes written since the session began, as counted by Spark's status pages."""
    url = spark.sparkContext.uiWebUrl
    with urllib.request.urlopen(f"{url}/api/v1/applications/{spark.sparkContext.applicationId}/stages") as answer:
        stages = json.load(answer)
    return float(sum(stage["shuffleWriteBytes"] for stage in stages)) / (1 << 20)


def cpu_seconds() -> tuple[float, float]:
    """Processor seconds so far of the JVM and of the Python workers that this process has started."""
    children: dict[int, list[tuple[int, bool, float, float]]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                name, _, rest = Path(entry.path, "stat").read_text().rpartition(")")
            except OSError:
                continue
            fields = rest.split()
            own, waited = (sum(map(int, fields[at : at + 2])) / os.sysconf("SC_CLK_TCK") for at in (11, 13))
            children.setdefault(int(fields[1]), []).append((int(entry.name), name.endswith("(java"), own, waited))
    jvm = python = 0.0
    left = [os.getpid()]
    while left:
        for pid, is_java, own, waited in children.get(left.pop(), []):
            left.append(pid)
            if is_java:
                jvm += own
            else:
                python += own + waited
    return jvm, python


Plans: TypeAlias = dict[str, tuple[int, Callable[[], DataFrame]]]
"""Name -> maximum number of rounds, and a function that creates the plan (some read data for that)."""


def drain(df: DataFrame) -> None:
    """Run a DataFrame to the end and discard the rows."""
    df.write.format("noop").mode("overwrite").save()


@dataclass(frozen=True)
class _Round:
    """One run of a plan; `jvm` and `python` are processor seconds."""

    seconds: float
    shuffled_mib: float
    peak_mib: float
    jvm: float
    python: float


class Bench:
    """Runs plans in turn and collects their medians."""

    def __init__(self, spark: SparkSession, rounds: int, only: str = "", warm_up: int = 0) -> None:
        self.spark = spark
        self.rounds = rounds
        self.warm_up = warm_up
        self.only = re.compile(only)
        self.lines: list[Measured] = []

    def compare(self, group: str, count: int, unit: str, plans: Plans) -> None:
        """Time plans side by side.

        Args:
            group: heading.
            count: number of units that a plan processes.
            unit: what the units are.
            plans: each is run to the end, and its rows are discarded.
        """
        plans = {name: plan for name, plan in plans.items() if self.only.search(name)}
        rounds: dict[str, list[_Round]] = {name: [] for name in plans}
        for turn in range(-self.warm_up, self.rounds):
            for name, (most, plan) in plans.items():
                if turn < 0 < most - 1:
                    drain(plan())
                elif 0 <= turn < most:
                    rounds[name].append(self._measure(lambda plan=plan: drain(plan())))  # type: ignore[misc]
        for name, measured in rounds.items():
            self._add(group, name, count, unit, measured)

    def once(self, group: str, name: str, count: int, unit: str, act: Callable[[], object]) -> None:
        """Time something once."""
        self._add(group, name, count, unit, [self._measure(act)])

    def warm(self) -> None:
        """Start the Python workers."""
        self.spark.range(2).repartition(2).mapInArrow(lambda batches: batches, "id long").count()

    def _measure(self, act: Callable[[], object]) -> _Round:
        before, memory = shuffled_mib(self.spark), Memory()
        jvm, python = cpu_seconds()
        memory.start()
        began = time.perf_counter()
        act()
        took = time.perf_counter() - began
        peak = memory.finish()
        jvm_after, python_after = cpu_seconds()
        return _Round(took, shuffled_mib(self.spark) - before, peak, jvm_after - jvm, python_after - python)

    def _add(self, group: str, name: str, count: int, unit: str, rounds: list[_Round]) -> None:
        seconds, jvm, python = (
            statistics.median(getattr(one, what) for one in rounds) for what in ("seconds", "jvm", "python")
        )
        peak, shuffled = max(one.peak_mib for one in rounds), rounds[-1].shuffled_mib
        per_second, each = count / seconds, 1e9 / count
        line = Measured(group, name, seconds, unit, per_second, shuffled, peak, jvm * each, python * each)
        self.lines.append(line)
        print(
            f"{line.group:24} {line.plan:34} {line.seconds:8.2f} s {line.per_second / MILLION:8.3f} M {line.unit}/s"
            f" {line.shuffle_mib:8.1f} MiB shuffled {line.worker_mib:6.0f} MiB a worker"
            f" {line.jvm_ns:6.0f} ns JVM {line.python_ns:6.0f} ns Python",
            flush=True,
        )

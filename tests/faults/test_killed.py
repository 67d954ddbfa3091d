"""A writer killed at any step leaves the old file or the whole new one, and nothing that is taken for a file."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest

import amounts
from dvcodec.cli.targets import expand
from faults.conftest import Order
from faults.writers import PARTIAL, WRITERS, Writer, check_folder, params

every_writer = pytest.mark.parametrize("writer", params(WRITERS))
KILLED = [
    pytest.param(writer, old, id=f"{writer.name}-{'replaced' if old else 'new'}")
    for writer in WRITERS
    for old in ((False,) if writer.file is None else (True,) if writer.own else (False, True))
]
"""Each writer without and with an old file, where both can be."""
STEPS = {"create", "write", "torn write", "fsync", "rename", "link", "open folder", "mkdir", "chmod", "remove"}
"""What a writer may do. A new kind of step is to be thought about first."""


class Bench:
    """Inputs, a new output folder for every run, and the process that writes."""

    def __init__(self, writer: Writer, folder: Path, order: Order) -> None:
        self.writer = writer
        self.inputs, self.out = folder / "in", folder / "out"
        self.inputs.mkdir()
        self.writer.prepare(self.inputs)
        self._order = order
        self._which = {"writer": WRITERS.index(writer), "inputs": self.inputs, "out": self.out}

    def run(self, *, fresh: bool = True, old: bool = False, **how: Any) -> dict[str, Any]:
        """Write into an empty folder, or one with the old file, or into what the last run has left."""
        if fresh:
            shutil.rmtree(self.out, ignore_errors=True)
            self.out.mkdir()
            if self.writer.file is not None and (old or self.writer.own):
                (self.out / self.writer.file).write_bytes(self.writer.old(self.inputs))
        return self._order(**self._which, **how)

    def killed(self, *, old: bool) -> Iterator[int]:
        """Run again and again, killed at another step each time; a gate leaves out steps before the last."""
        answer = self.run(old=old)
        assert answer["error"] is None, answer
        count = len(answer["steps"])
        assert count > 4
        first = max(0, count - 8)
        for step in (*range(0, first, amounts.of(max(1, first // 4), 1)), *range(first, count)):
            assert self.run(old=old, kill=step) == {"killed": SIGKILL}
            yield step


@pytest.fixture
def bench(writer: Writer, tmp_path: Path, order: Order) -> Bench:
    return Bench(writer, tmp_path, order)


@pytest.mark.parametrize(("writer", "old"), KILLED)
def test_killed_at_every_step(bench: Bench, old: bool) -> None:
    writer = bench.writer
    assert bench.run(old=old)["error"] is None
    assert check_folder(writer, bench.out, partials=False)
    target = bench.out / writer.file if writer.file else None
    new = target.read_bytes() if target else None
    before = writer.old(bench.inputs) if writer.file and (old or writer.own) else None
    ends = set()
    valid: set[bytes] = set()
    for _ in bench.killed(old=old):
        whole = [path for path in sorted(bench.out.rglob("*")) if path.is_file() and not PARTIAL.fullmatch(path.name)]
        for path in whole:
            if path == target and path.read_bytes() == before:
                ends.add("old")
                continue
            if path.read_bytes() not in valid:
                writer.check(path)
                valid.add(path.read_bytes())
            assert path != target or new is None or path.read_bytes() == new
            ends.add("new")
        if target:
            assert whole in ([target], [] if before is None else [target])
        if whole:
            assert [found.path for found in expand([str(bench.out)])] == list(map(str, whole)), "litter is read"
        if not whole:
            ends.add("nothing")
    assert ends == {"nothing" if before is None else "old", "new"}


@every_writer
def test_files_left_by_a_killed_writer_disturb_no_later_write(bench: Bench) -> None:
    """After a death at the last step before the file is there, the same is done again, and ends well."""
    steps = bench.run()["steps"]
    last = max(i for i, (what, _) in enumerate(steps) if what == "rename")
    assert bench.run(kill=last) == {"killed": SIGKILL}
    litter = [path for path in bench.out.rglob("*") if PARTIAL.fullmatch(path.name)]
    assert len(litter) == 1
    assert bench.run(fresh=False)["error"] is None
    whole = check_folder(bench.writer, bench.out, partials=True)
    assert whole
    assert [path for path in bench.out.rglob("*") if PARTIAL.fullmatch(path.name)] == litter


@every_writer
def test_what_is_renamed_is_on_disk_before_and_its_folder_after(bench: Bench) -> None:
    """Power may fail at any time: the bytes are synced before they get their name, and then the folder is."""
    steps = [(what, path) for what, path in bench.run(old=True)["steps"]]
    assert {what for what, _ in steps} <= STEPS
    created = [path for what, path in steps if what == "create"]
    assert created
    assert all(PARTIAL.fullmatch(Path(path).name) for path in created), "written under another name first"
    for partial in created:
        done = [what for what, path in steps if path == partial]
        writes = len(done) - 1 - done[::-1].index("torn write")
        assert "write" in done
        ends = (
            ["fsync", "rename"],
            ["chmod", "fsync", "rename"],
            ["fsync", "chmod", "rename"],
            ["fsync", "link", "remove"],
        )
        assert done[writes + 1 :] in ends  # linked where an old file must not be replaced
        at = steps.index((done[-1], partial))
        folder = str(Path(partial).parent)
        assert steps[at + 1 : at + 3] == [("open folder", folder), ("fsync", folder)]

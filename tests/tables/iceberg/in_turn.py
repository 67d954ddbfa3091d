"""pyiceberg and dvcodec write to one table of version 2 in turn, held against its rows as a plain dictionary."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import amounts
from dvcodec.tables import audit, compact_deletes, open_table
from samples.rows import ids

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("n", pa.int64())])
STEPS = amounts.of(15, 40)


def rows_of(start: int, count: int) -> pa.Table:
    some = range(start, start + count)
    return pa.table([[*some], [f"p{i % 3}" for i in some], [i % 10 for i in some]], schema=SCHEMA)


class InTurn:
    """A new table of a catalog, and its rows: id -> n.

    Args:
        catalog: of pyiceberg, with the namespace.
        identifier: name of the table.
        seed: decides on granularity, steps and values.
    """

    def __init__(self, catalog: Any, identifier: Any, seed: int) -> None:
        self.chance = random.Random(seed)
        properties = {"format-version": "2", "write.delete.granularity": self.chance.choice(["file", "partition"])}
        catalog.create_table(identifier, SCHEMA, properties=properties)
        self.catalog, self.identifier = catalog, identifier
        self.rows: dict[int, int] = {}
        self.next = 0
        self.states: dict[int, dict[int, int]] = {}
        """Rows of the snapshots of the main branch, by id."""
        self.log: list[str] = []
        """Names of the steps, for a failure."""

    @property
    def theirs(self) -> Any:
        return self.catalog.load_table(self.identifier)

    def run(self, steps: int = STEPS, *, without: Collection[str] = ()) -> None:
        """Take steps by chance, and check after each.

        Args:
            steps: how many.
            without: names of steps that the catalog does not know.
        """
        possible = [self.append, self.overwrite, self.delete_by_pyiceberg, self.evolve, self.partition, self.tag]
        possible += [self.delete_where, self.delete_where, self.delete_keys, self.delete_file, self.compact]
        possible += [self.branch, self.roll_back, self.expire]
        possible = [step for step in possible if step.__name__ not in without]
        self.append()
        self.check()
        for _ in range(steps):
            step = self.chance.choice(possible)
            self.log.append(step.__name__)
            step()
            self.check()

    def left(self, gone: Callable[[int, int], bool]) -> dict[int, int]:
        return {key: n for key, n in self.rows.items() if not gone(key, n)}

    def new_rows(self) -> pa.Table:
        some = rows_of(self.next, self.chance.randrange(1, 60))
        self.next += len(some)
        self.rows = self.rows | dict(zip(some["id"].to_pylist(), some["n"].to_pylist(), strict=True))
        return some

    # ------------------------------------------------------------------ steps of pyiceberg

    def append(self) -> None:
        self.theirs.append(self.new_rows())

    def overwrite(self) -> None:
        n = self.chance.randrange(10)
        self.rows = self.left(lambda _, value: value == n)
        self.theirs.overwrite(self.new_rows(), f"n = {n}")

    def delete_by_pyiceberg(self) -> None:
        n, first = self.chance.randrange(10), self.next // 2
        self.theirs.delete(f"n = {n} and id > {first}")
        self.rows = self.left(lambda key, value: value == n and key > first)

    def evolve(self) -> None:
        from pyiceberg.types import StringType

        with self.theirs.update_schema() as schema:
            schema.add_column(f"c{self.next}_{len(self.log)}", StringType())

    def partition(self) -> None:
        from pyiceberg.transforms import IdentityTransform

        with self.theirs.update_spec() as spec:
            if self.theirs.spec().fields:
                spec.remove_field("part")
            else:
                spec.add_field("part", IdentityTransform(), "part")

    def tag(self) -> None:
        self.theirs.manage_snapshots().create_tag(self.current(), f"t{len(self.log)}").commit()

    def roll_back(self) -> None:
        """To an earlier snapshot of the main branch."""
        table = self.theirs
        here: int | None = self.current()
        ancestors = []
        while here is not None and (snapshot := table.snapshot_by_id(here)) is not None:
            ancestors.append(here)
            here = snapshot.parent_snapshot_id
        known = [one for one in ancestors[:6] if one in self.states]
        chosen = self.chance.choice(known)
        table.manage_snapshots().rollback_to_snapshot(chosen).commit()
        self.rows = self.states[chosen]

    def expire(self) -> None:
        """All snapshots that no branch and no tag leads to."""
        self.theirs.maintenance.expire_snapshots().older_than(datetime.now() + timedelta(days=1)).commit()  # noqa: DTZ005

    # ------------------------------------------------------------------ steps of dvcodec

    def delete_where(self) -> None:
        first, n = self.chance.randrange(self.next + 1), self.chance.randrange(10)
        where: Any = (pc.field("n") == n) & (pc.field("id") >= first)
        done = open_table(self.theirs).delete(where)
        before = len(self.rows)
        self.rows = self.left(lambda key, value: value == n and key >= first)
        assert done.rows == before - len(self.rows)

    def delete_keys(self) -> None:
        keys = self.chance.sample(range(self.next + 1), min(20, self.next))
        open_table(self.theirs).delete(keys=pa.table({"id": pa.array(keys, pa.int64())}), on=["id"])
        self.rows = self.left(lambda key, _: key in keys)

    def delete_file(self) -> None:
        """Delete all rows of a data file."""
        table = open_table(self.theirs)
        snapshot = table.snapshot()
        if snapshot.data_files:
            file = self.chance.choice(snapshot.data_files)
            keys = {key for part in snapshot.rows(file, columns=["id"]) for key in part.batch["id"].to_pylist()}
            table.delete(pc.field("id").isin(sorted(keys)))
            self.rows = self.left(lambda key, _: key in keys)
            assert file.path not in table.snapshot().files

    def compact(self) -> None:
        compact_deletes(open_table(self.theirs))

    def branch(self) -> None:
        """Delete from a branch, which leaves the main branch as it is; then it may be published."""
        n, main = self.chance.randrange(10), self.current()
        self.theirs.manage_snapshots().create_branch(main, "work").commit()
        open_table(self.theirs, reference="work").delete(pc.field("n") == n)
        rows = self.left(lambda _, value: value == n)
        assert self.read("work") == rows
        assert self.current() == main
        if self.chance.random() < 0.5:
            self.theirs.manage_snapshots().set_current_snapshot(ref_name="work").commit()
            self.rows = rows
        self.theirs.manage_snapshots().remove_branch("work").commit()

    # ------------------------------------------------------------------ checks

    def current(self) -> int:
        number: int = self.theirs.current_snapshot().snapshot_id
        return number

    def read(self, reference: str = "main") -> dict[int, int]:
        """Return the rows as pyiceberg reads them."""
        found = self.theirs.scan(selected_fields=("id", "n")).use_ref(reference).to_arrow()
        rows = dict(zip(found["id"].to_pylist(), found["n"].to_pylist(), strict=True))
        assert len(rows) == found.num_rows
        return rows

    def check(self) -> None:
        assert self.read() == self.rows, self.log
        table = open_table(self.theirs)
        assert ids(table) == sorted(self.rows), self.log
        assert audit(table).ok, self.log
        self.states[self.current()] = self.rows

"""Tables that go through changes of schema, layout and history, told in SQL statements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from common import COLUMNS, Place


@dataclass(frozen=True)
class Statements:
    """A table, whose text is its name in statements, and what runs them."""

    place: Place

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.place.spark.sql(statement)

    def alter(self, *changes: str) -> None:
        self.run(*(f"ALTER TABLE {self} {change}" for change in changes))


@dataclass(frozen=True)
class OfCatalog(Statements):
    """A table of a catalog.

    Attributes:
        procedures: the schema of the catalog that its engine's procedures are in.
    """

    procedures: ClassVar[str]
    catalog: str
    name: str

    def __str__(self) -> str:
        return f"{self.catalog}.{self.name}"

    def call(self, procedure: str, *arguments: str) -> None:
        listed = ", ".join((f"table => '{self.name}'", *arguments))
        self.run(f"CALL {self.catalog}.{self.procedures}.{procedure}({listed})")


Of = TypeVar("Of", bound=Statements)


@dataclass(frozen=True)
class Change(Generic[Of]):
    """How a table is laid out, and what it goes through.

    Attributes:
        columns: of the table; none: it is made by what it goes through.
        ends_with_schema: the last thing done changes the schema, which no snapshot records.
    """

    run: Callable[[Of], None]
    columns: str = COLUMNS
    partitions: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    ends_with_schema: bool = False

"""The options of the data source, parsed strictly: a misspelled one is an error."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from dvcodec.core.errors import UsageError
from dvcodec.core.limits import Limits, parse_limits
from dvcodec.formats import ContainerKind
from dvcodec.io.store import StoreOptions
from dvcodec.io.target import file_key
from dvcodec.ops.convert import hint
from dvcodec.spark.vectors import MAGICS, Target

StoreValues: TypeAlias = tuple[tuple[str, str], ...]
"""Storage options as (key, value): frozen, and in no repr, as some are secrets."""

MIB = 1 << 20
PARTITION_BYTES = 32 * MIB
OPEN_COST_BYTES = 64 << 10
"""Cost of opening a file, in bytes that could be read meanwhile: 512 tiny files fill a partition."""
REMOTE_OPEN_COST_BYTES = MIB
"""The same in an object store, where each open is a request: 32 tiny files fill a partition."""
TARGET_BYTES: dict[Target, int] = {"iceberg": 64 * MIB, "delta": 64 * MIB, "paimon32": 2 * MIB, "paimon64": 2 * MIB}
MAX_VECTORS: dict[Target, int] = {"iceberg": 1 << 16, "delta": 1 << 20, "paimon32": 1 << 20, "paimon64": 1 << 20}
"""Maximum vectors in a container; readers accept up to `Limits.max_records`."""

_SIZE = re.compile(r"(\d+)\s*([kmg]?)i?b?", re.IGNORECASE)
_STORAGE = "storage."
_OF_STORES = re.compile(r"aws_|azure_|google_|endpoint|anon|profile|allow_http")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class SourceLimits(Limits):
    """Limits of a data source, whose option raises them."""

    __slots__ = ()
    how_to_raise = 'option("limits", "{}=...")'


SOURCE_LIMITS = SourceLimits()


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of a read; see `VectorSource`.

    Attributes:
        paths: as the user gave them.
        kind: the only kind of container wanted; None takes any.
        columns: names, None for the default.
        ignore_others: whether files of a folder that are not containers are skipped.
        verify_checksum: whether CRCs are checked.
        committed: whether files that no manifest of their folder names are left out.
        partition_bytes: bytes that one task reads, about.
        open_cost: bytes added to the size of each file; None for the default, which is higher for remote files.
        file_keys: only vectors of data files with these keys (`io.target.file_key`); None for all.
        storage_options: how stores are reached.
        limits: bounds on what the bytes may claim.
    """

    paths: tuple[str, ...]
    kind: ContainerKind | None = None
    columns: tuple[str, ...] | None = None
    ignore_others: bool = False
    verify_checksum: bool = True
    committed: bool = True
    partition_bytes: int = PARTITION_BYTES
    open_cost: int | None = None
    file_keys: frozenset[str] | None = None
    storage_options: StoreValues = field(default=(), repr=False)
    limits: Limits = SOURCE_LIMITS

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Read the options of a ``DataFrameReader``; names are not case-sensitive.

        Raises:
            UsageError: an unknown option or value. (A missing path is reported by the reader.)
        """
        given = Options(options)
        paths = given.paths()
        kinds = tuple(kind.value for kind in ContainerKind if kind is not ContainerKind.ZAP)
        kind = given.choice("format", kinds, "")
        columns, files = given.text("columns"), given.names("data-files", commas=False)
        parsed = cls(
            paths,
            ContainerKind(kind) if kind else None,
            None if columns is None else tuple(name.strip() for name in columns.split(",")),
            given.flag("ignore-others", default=False),
            given.flag("verify-checksum", default=True),
            given.flag("committed", default=True),
            given.size("partition-bytes", PARTITION_BYTES),
            given.size("open-cost-bytes", 0) or None,
            None if files is None else frozenset(map(file_key, files)),
            given.storage(),
            given.limits(),
        )
        given.expect_all_known()
        return parsed


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a write; see `VectorSource`.

    Attributes:
        path: the folder.
        target: kind of container.
        target_bytes: bytes at which a container is full; it is larger by up to one vector.
        max_vectors: vectors at which a container is full.
        storage_options: how stores are reached.
    """

    path: str
    target: Target
    target_bytes: int
    max_vectors: int
    storage_options: StoreValues = field(default=(), repr=False)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Read the options of a ``DataFrameWriter``; names are not case-sensitive.

        Raises:
            UsageError: no path, or an unknown option or value.
        """
        given = Options(options)
        paths = given.paths()
        if len(paths) != 1:
            raise UsageError("a write needs one folder: save(path)")
        try:
            target = cast("Target", given.choice("target", tuple(MAGICS), "iceberg"))
        except UsageError as err:
            raise UsageError(f"{err}{hint(given.text('target'))}") from None
        max_vectors = given.size("max-vectors", MAX_VECTORS[target])
        if max_vectors > MAX_VECTORS[target]:
            raise UsageError(f"option max-vectors: a {target} container holds at most {MAX_VECTORS[target]} vectors")
        parsed = cls(
            paths[0],
            target,
            given.size("target-bytes", TARGET_BYTES[target]),
            max_vectors,
            given.storage(),
        )
        given.expect_all_known()
        return parsed


PathsInput: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path or URL, or several."""


def paths_option(paths: object) -> str:
    """Return `PathsInput` as the option ``paths`` of a data source.

    Raises:
        UsageError: it is something else.
    """
    several: Any = paths if isinstance(paths, (list, tuple)) else [paths]
    if not all(isinstance(path, (str, os.PathLike)) for path in several):
        raise UsageError(f"expected a DataFrame, or a path or several, not {type(paths).__name__}")
    return json.dumps(list(map(os.fspath, several)))


def storage_keys(storage_options: Mapping[str, object] | None) -> dict[str, str]:
    """Return storage options as options of a data source: ``storage.<key>``.

    Raises:
        UsageError: a value that is not valid.
    """
    StoreOptions.of(storage_options)
    given = ((key, value) for key, value in (storage_options or {}).items() if value is not None)
    return {f"{_STORAGE}{key}": str(value).lower() if isinstance(value, bool) else str(value) for key, value in given}


class Options:
    """The options of a source by lower-case name; records which were read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._known: set[str] = set()

    def text(self, name: str) -> str | None:
        """Return an option unchanged, None if it is not given."""
        self._known.add(name)
        return self._values.get(name)

    def choice(self, name: str, allowed: tuple[str, ...], default: str) -> str:
        """Return one of some words, in lower case.

        Raises:
            UsageError: it is another word.
        """
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in allowed:
            raise UsageError(f"option {name}: expected one of {', '.join(allowed)}, found {value!r}")
        return value.lower()

    def flag(self, name: str, *, default: bool) -> bool:
        """Return whether an option is ``true``.

        Raises:
            UsageError: it is neither ``true`` nor ``false``.
        """
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def size(self, name: str, default: int) -> int:
        """Return a size in bytes: ``33554432``, ``32m``, ``32 MiB`` (powers of two).

        Raises:
            UsageError: it is not a positive size.
        """
        text = self.text(name)
        if text is None:
            return default
        match = _SIZE.fullmatch(text.strip())
        size = int(match[1]) * _UNITS[match[2].lower()] if match else 0
        if size < 1:
            raise UsageError(f"option {name}: expected a positive size such as 33554432 or 32m, found {text!r}")
        return size

    def names(self, name: str, *, commas: bool) -> tuple[str, ...] | None:
        """Return the names of a JSON array, each once; or one name, or several with `commas` between them.

        Raises:
            UsageError: an array that is not one of strings.
        """
        text = self.text(name)
        if text is None:
            return None
        if text.lstrip().startswith("["):
            return tuple(dict.fromkeys(_strings(text, name)))
        return tuple(dict.fromkeys(map(str.strip, text.split(",")))) if commas else (text,)

    def paths(self) -> tuple[str, ...]:
        """Return ``path`` and ``paths``, the JSON array that Spark makes of ``load([..])``.

        Raises:
            UsageError: a path is empty, or `paths` is not a JSON array of strings.
        """
        one, several = self.text("path"), self.text("paths")
        found = [] if one is None else [one]
        if several is not None:
            found += _strings(several, "paths")
        if not all(found):
            raise UsageError("a path is empty")
        return tuple(found)

    def storage(self) -> StoreValues:
        """Return the options ``storage.<key>``: how stores are reached, see `dvcodec.io.store.options`.

        Raises:
            UsageError: a value that is not valid.
        """
        start = len(_STORAGE)
        found = {name[start:]: value for name, value in self._values.items() if name.startswith(_STORAGE)}
        StoreOptions.of(found)
        return tuple(sorted(found.items()))

    def limits(self) -> Limits:
        """Return the option ``limits``: ``max_records=..,max_metadata_bytes=..``, the others as by default.

        Raises:
            UsageError: an unknown limit, or a value that is not a number.
        """
        return parse_limits(filter(None, (self.text("limits") or "").split(",")), SOURCE_LIMITS, "option limits:")

    def expect_all_known(self) -> None:
        """Refuse options that were not read, except names that platforms add (with dots, or leading underscores).

        Raises:
            UsageError: there is such an option.
        """
        unknown = [name for name in self._values if name not in self._known]
        unknown = [name for name in unknown if "." not in name and not name.startswith("_")]
        if unknown:
            known = ", ".join([*sorted(self._known), f"{_STORAGE}<key>"])
            hint = f"; did you mean {_STORAGE}{unknown[0]}?" if _OF_STORES.match(unknown[0]) else ""
            raise UsageError(f"unknown option {unknown[0]!r}, known are: {known}{hint}")


def _strings(text: str, name: str) -> list[str]:
    try:
        listed = json.loads(text)
    except ValueError:
        listed = None
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise UsageError(f"option {name}: expected a JSON array of strings, found {text!r}")
    return listed

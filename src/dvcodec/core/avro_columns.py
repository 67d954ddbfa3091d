"""Fields of many Avro records at once, in columns.

An Avro record does not say where it ends, so a reader goes from field to field, and from record to record. Here the
beginnings of all records are guessed, all guesses are read field by field, each field in a few NumPy passes, and the
guesses are proved: the first record begins where the first block does, each other one where the one before it ends, and
the last one of a block ends with it. All that is between was read, so there is nothing else. Records are guessed by a
text that one of their first fields has, as names of files begin alike. Where no guess is, the record is read by itself,
and others like it are looked for.

There are no errors here: what is damaged, or unusual, is left to `AvroFile.records`. The schema decides the layout.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from dvcodec.core.avro import AvroFile, without_annotations
from dvcodec.core.errors import DecodeError
from dvcodec.core.ragged import Flags, Index

Path: TypeAlias = tuple[str, ...]
"""Names of a field, from the record to records in it."""
_FEW = 128
"""Records that are read one by one in less time."""
_ALIKE = 5
"""First bytes that texts have in common."""
_MOST_GUESSES = 32
"""Ways in which records may begin."""
_MOST_BYTES = 1 << 27
"""Of all records: several times what engines put into a manifest."""
_APART = 32
"""Average distance of guesses, in bytes, at least."""
_LEAST_WORK, _WORK_OF_BYTE, _WORK_OF_PASS = 1 << 18, 4, 256
"""Values that may be read: some, and more for each byte. A pass costs as much as so many values, however few it reads.
Bytes that are not a record may claim any number of items, so this bounds the work they cause."""
_PADDING = 24
_ONE, _HIGH, _LOW = np.uint64(1), np.uint64(0x8080808080808080), np.uint64(0x7F7F7F7F7F7F7F7F)
_GROUPS = [
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
]
_INTEGERS = ("int", "long")
_TEXTS = ("string", "bytes")
_SIZES = {"null": 0, "float": 4, "double": 8}


@dataclass(frozen=True, slots=True)
class AvroValues:
    """A field of all records.

    Attributes:
        values: int64[n], numbers; or where a text, a record or an array begins.
        sizes: int64[n], bytes of these; None for numbers.
        valid: which records have a value; None if all have.
    """

    values: Index
    sizes: Index | None = None
    valid: Flags | None = None

    @property
    def null_count(self) -> int:
        """How many records have no value."""
        return 0 if self.valid is None else int(len(self.valid) - np.count_nonzero(self.valid))

    @property
    def is_null(self) -> Flags:
        """Which records have no value."""
        return np.zeros(len(self.values), np.bool_) if self.valid is None else ~self.valid

    def __getitem__(self, number: int) -> int | None:
        """Return the number of a record, None if it has none."""
        return None if self.valid is not None and not self.valid[number] else int(self.values[number])

    def take(self, index: Index) -> AvroValues:
        """Return the field of some records."""
        return AvroValues(self.values[index], _taken(self.sizes, index), _taken(self.valid, index))


def _taken(column: Any, index: Index) -> Any:
    return None if column is None else column[index]


@dataclass(frozen=True, slots=True)
class AvroPairs:
    """The items of a map by number, an array of records of two fields, in all records; an item at a time.

    Attributes:
        rows: record of each item.
        keys: number of each item.
        values: numbers, or where texts begin.
        sizes: bytes of these; None for numbers.
    """

    rows: Index
    keys: Index
    values: Index
    sizes: Index | None

    def of_rows(self, places: Index) -> AvroPairs:
        """Return the items of records that have a place, by that."""
        rows = places[self.rows]
        return self._take(rows, np.flatnonzero(rows >= 0))

    def of_key(self, key: int) -> AvroPairs:
        """Return the items of a number."""
        return self._take(self.rows, np.flatnonzero(self.keys == key))

    def _take(self, rows: Index, index: Index) -> AvroPairs:
        return AvroPairs(rows[index], self.keys[index], self.values[index], _taken(self.sizes, index))


@dataclass(frozen=True, slots=True, eq=False)
class AvroColumns:
    """What `read_columns` returns.

    Attributes:
        count: records.
        content: of all blocks.
        columns: fields by path; those that the schema lacks are missing.
        pairs: maps by path.
    """

    count: int
    content: bytes
    columns: Mapping[Path, AvroValues]
    pairs: Mapping[Path, AvroPairs]

    def bytes_of(self, column: AvroValues | AvroPairs) -> list[bytes]:
        """Return texts, or records as they are stored; empty where there is no value."""
        assert column.sizes is not None  # noqa: S101
        return _pieces(self.content, column.values, column.sizes)

    def texts(self, column: AvroValues) -> list[str]:
        """Return texts; empty where there is no value."""
        return list(map(bytes.decode, self.bytes_of(column)))


def _pieces(content: bytes, starts: Index, sizes: Index) -> list[bytes]:
    return [content[a:b] for a, b in zip(starts.tolist(), (starts + sizes).tolist(), strict=True)]


def read_columns(
    file: AvroFile, anchor: Path, wanted: Collection[Path], maps: Collection[Path] = ()
) -> AvroColumns | None:
    """Read fields of all records of a file.

    Args:
        file: whose records are all in memory.
        anchor: a text that each record has, near its beginning, of which most begin alike.
        wanted: numbers, texts, and records and arrays, which are returned as they are stored.
        maps: maps by number whose items are returned.

    Returns:
        None if there are few records, if one of them is damaged, or if the schema has types that are not read here.
    """
    try:
        counts: list[int] = []
        contents: list[memoryview] = []
        bounds = [0]
        for count, content, _ in file.contents():
            counts.append(count)
            contents.append(content)
            bounds.append(bounds[-1] + len(content))
            if bounds[-1] > _MOST_BYTES:
                return None
        if sum(counts) < _FEW:
            return None
        reader = file.reader()
        schema = without_annotations(file.schema)
        guesses = _Guesses(b"".join(contents), schema, anchor, wanted, maps, reader, file.most_bytes)
        return guesses.proved(counts, bounds)
    except (DecodeError, _UnusualError):
        return None


class _UnusualError(Exception):
    """Records that are not read in columns: they have another type, or take too long."""


@dataclass(slots=True)
class _Found:
    """What was read of guessed records, by record.

    Attributes:
        starts: where they begin.
        stops: where they end; beyond the content if the bytes are not a record.
        columns: see `AvroColumns`.
        pairs: see `AvroColumns`.
        texts: where all texts are: records, starts, sizes.
    """

    starts: Index
    stops: Index
    columns: dict[Path, AvroValues] = field(default_factory=dict)
    pairs: dict[Path, list[AvroPairs]] = field(default_factory=dict)
    texts: list[tuple[Index, Index, Index]] = field(default_factory=list)


class _Guesses:
    """Guesses where the records of a content begin."""

    def __init__(
        self,
        content: bytes,
        schema: Any,
        anchor: Path,
        wanted: Collection[Path],
        maps: Collection[Path],
        reader: Callable[[io.BytesIO], Any],
        most: int,
    ) -> None:
        self._content, self._anchor, self._reader, self._most = content, anchor, reader, most
        self._leaves = list(_leaves(schema, (), frozenset(wanted)))
        paths = [path for path, _ in self._leaves]
        if anchor not in paths or _name(dict(self._leaves)[anchor]) != "string":
            raise _UnusualError
        self._head = paths.index(anchor)
        if not frozenset(maps).isdisjoint(paths[: self._head]):
            raise _UnusualError
        self._walk = _Walk(content, frozenset(wanted), frozenset(maps))
        self._occurrences: dict[bytes, Index] = {}

    def proved(self, counts: Sequence[int], bounds: Sequence[int]) -> AvroColumns | None:
        """Return the records of the content; None if they are not those of its blocks.

        Args:
            counts: records of each block.
            bounds: where each block begins, and where the last one ends.
        """
        found: list[_Found] = []
        seen: set[tuple[bytes, int]] = set()
        starts = stops = order = np.zeros(0, np.int64)
        at = 0
        while at != len(self._content):
            if len(seen) == _MOST_GUESSES:
                return None
            learned = self._learn(at)
            if learned is None or learned in seen:
                return None
            seen.add(learned)
            found.append(self._read(*learned))
            starts = np.concatenate([one.starts for one in found])
            stops = np.concatenate([one.stops for one in found])
            by_start = np.argsort(starts, kind="stable")
            order = by_start[_chain(starts[by_start], stops[by_start])]
            if not len(starts) or starts[order[0]]:
                return None
            at = int(stops[order[-1]])
        if int((stops[order] - starts[order]).max()) > self._most:
            return None
        begins = np.append(starts[order], at)
        firsts = np.searchsorted(begins, bounds)
        if not np.array_equal(begins[firsts], bounds) or not np.array_equal(np.diff(firsts), counts):
            return None
        return self._joined(found, order)

    def _learn(self, at: int) -> tuple[bytes, int] | None:
        """Read the record at a position; return how its text begins, and how far after the record does."""
        stream = io.BytesIO(self._content[at : at + self._most])
        try:
            text = self._reader(stream)
            for name in self._anchor:
                text = text[name]
            encoded = text.encode()
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001  (fastavro raises any exception here)
            return None
        place = self._content.find(encoded, at, at + stream.tell())
        return (encoded[:_ALIKE], place - at) if encoded and place >= 0 else None

    def _read(self, text: bytes, head: int) -> _Found:
        """Read what may be records: those whose text begins so, and so far after them."""
        if text not in self._occurrences:
            if self._content.count(text) > len(self._content) // _APART:
                raise _UnusualError
            lengths = np.fromiter(map(len, self._content.split(text)[:-1]), np.int64)
            self._occurrences[text] = np.cumsum(lengths + len(text)) - len(text)
        places = self._occurrences[text]
        places = places[places >= head]
        walk, pos = self._walk, places - head
        walk.begin(pos)
        for path, kind in self._leaves[: self._head]:
            pos = walk.leaf(path, kind, pos)
        fits = np.flatnonzero(walk.after_number(pos) == places)
        found = walk.keep(fits)
        pos = pos[fits]
        for path, kind in self._leaves[self._head :]:
            pos = walk.leaf(path, kind, pos)
        found.stops = pos
        return found

    def _joined(self, found: Sequence[_Found], order: Index) -> AvroColumns | None:
        """Return what was read of the true records, in order; None if a text is not UTF-8."""
        ends = np.cumsum([len(one.starts) for one in found])
        places = np.full(int(ends[-1]), -1)
        places[order] = np.arange(len(order))
        columns: dict[Path, AvroValues] = {}
        pairs: dict[Path, AvroPairs] = {}
        for one, end in zip(found, ends.tolist(), strict=True):
            own = places[end - len(one.starts) : end]
            for rows, starts, sizes in one.texts:
                live = np.flatnonzero(own[rows] >= 0)
                if not _are_utf8(self._content, starts[live], sizes[live]):
                    return None
        for path in found[0].columns:
            columns[path] = _concatenated([one.columns[path] for one in found]).take(order)
        for path in found[0].pairs:
            items = []
            for one, end in zip(found, ends.tolist(), strict=True):
                own = places[end - len(one.starts) : end]
                items += [some.of_rows(own) for some in one.pairs[path]]
            pairs[path] = _concatenated_pairs(items)
        return AvroColumns(len(order), self._content, columns, pairs)


def _concatenated(parts: Sequence[AvroValues]) -> AvroValues:
    if len(parts) == 1:
        return parts[0]
    sizes = [part.sizes for part in parts if part.sizes is not None]
    valid = None if all(part.valid is None for part in parts) else np.concatenate([~part.is_null for part in parts])
    values = np.concatenate([part.values for part in parts])
    return AvroValues(values, np.concatenate(sizes) if sizes else None, valid)


def _concatenated_pairs(parts: Sequence[AvroPairs]) -> AvroPairs:
    nothing = np.zeros(0, np.int64)
    rows, keys, values = (
        np.concatenate([nothing, *(getattr(part, name) for part in parts)]) for name in ("rows", "keys", "values")
    )
    sizes = [part.sizes for part in parts if part.sizes is not None]
    return AvroPairs(rows, keys, values, np.concatenate([nothing, *sizes]) if sizes or not parts else None)


def _chain(starts: Index, stops: Index) -> Index:
    """Return the indexes of the first of ascending ranges and of those that follow it, each where the last one ends.

    By pointer doubling: in each round twice as many are known.
    """
    if not len(starts):
        return starts
    sink = len(starts)
    following = np.searchsorted(starts, stops)
    following[np.append(starts, -1)[following] != stops] = sink
    following = np.append(following, sink)
    found = np.zeros(1, np.int64)
    while found[-1] != sink:
        found = np.concatenate([found, following[found]])
        following = following[following]
    chained: Index = found[found != sink]
    return chained


def _are_utf8(content: bytes, starts: Index, sizes: Index) -> bool:
    """Whether all texts are UTF-8: all of them together are, and none begins within a character."""
    joined = b"".join(_pieces(content, starts, sizes))
    if joined.isascii():
        return True
    firsts = np.frombuffer(content, np.uint8)[starts[sizes > 0]]
    try:
        joined.decode()
    except UnicodeDecodeError:
        return False
    return not bool(((firsts & 0xC0) == 0x80).any())


def _leaves(schema: Any, path: Path, whole: Collection[Path]) -> Iterator[tuple[Path, Any]]:
    """Yield the fields that a record consists of, those of records in it among them, unless such a one is wanted."""
    if isinstance(schema, list) or _name(schema) != "record" or path in whole:
        yield path, schema
        return
    for entry in schema["fields"]:
        yield from _leaves(entry["type"], (*path, entry["name"]), whole)


def _name(kind: Any) -> str:
    """Return the name of a type other than a union.

    Raises:
        _UnusualError: it is one, or writers spell it in another way.
    """
    name = kind.get("type") if isinstance(kind, dict) else kind
    if not isinstance(name, str):
        raise _UnusualError
    return name


class _Walk:
    """Reads fields of many records: each method takes where they begin, and returns where they end.

    Bytes that are not a record end beyond the content, and stay there.
    """

    def __init__(self, content: bytes, wanted: Collection[Path], maps: Collection[Path]) -> None:
        padded = np.zeros(len(content) + _PADDING, np.uint8)
        padded[: len(content)] = np.frombuffer(content, np.uint8)
        self.data = padded
        self._words = np.ndarray((len(content) + _PADDING - 8,), "<u8", padded, strides=(1,))
        self._beyond = len(content) + 1
        self._wanted, self._maps = wanted, maps
        self._work = _LEAST_WORK + _WORK_OF_BYTE * len(content)
        self.begin(np.zeros(0, np.int64))

    def begin(self, starts: Index) -> None:
        """Begin with the first fields of records."""
        self._found = _Found(starts, starts)
        self._rows = np.arange(len(starts))

    def keep(self, index: Index) -> _Found:
        """Go on with some of the records alone; return what is read of them, to which more is added."""
        before = self._found
        self.begin(before.starts[index])
        places = np.full(len(before.starts), -1)
        places[index] = self._rows
        found = self._found
        found.columns = {path: column.take(index) for path, column in before.columns.items()}
        for rows, starts, sizes in before.texts:
            true = np.flatnonzero(places[rows] >= 0)
            found.texts.append((places[rows[true]], starts[true], sizes[true]))
        return found

    def leaf(self, path: Path, kind: Any, pos: Index) -> Index:
        """Read a field, and keep it if it is wanted."""
        if isinstance(kind, list):
            return self._nullable(path, kind, pos)
        name = _name(kind)
        wanted = path in self._wanted
        if path in self._maps:
            if name != "array":
                raise _UnusualError
            return self._array(kind["items"], pos, self._found.pairs.setdefault(path, []))
        if name in _INTEGERS and wanted:
            values, pos = self._numbers(pos)
            self._keep(path, values, None)
            return pos
        start = self.after_number(pos) if name in _TEXTS else pos
        pos = self._skip(kind, pos)
        if wanted:
            if name not in (*_TEXTS, "record", "array"):
                raise _UnusualError
            self._keep(path, start, pos - start)
        return pos

    def _keep(self, path: Path, values: Index, sizes: Index | None) -> None:
        """Keep a field of those records that have it."""
        count = len(self._found.starts)
        if len(self._rows) == count:
            self._found.columns[path] = AvroValues(values, sizes)
            return
        full, valid = np.zeros((2, count), np.int64), np.zeros(count, np.bool_)
        full[0, self._rows], valid[self._rows] = values, True
        if sizes is not None:
            full[1, self._rows] = sizes
        self._found.columns[path] = AvroValues(full[0], None if sizes is None else full[1], valid)

    def _nullable(self, path: Path, kind: Sequence[Any], pos: Index) -> Index:
        """Read a value that may be null."""
        if len(kind) != 2 or kind.count("null") != 1:
            raise _UnusualError
        branch = self.data[pos]
        null = 2 * kind.index("null")
        there = branch == 2 - null
        if there.all():
            return self.leaf(path, kind[1 - null // 2], self._moved(pos + 1))
        stops = np.where(branch == null, pos + 1, self._beyond)
        some = np.flatnonzero(there)
        rows, self._rows = self._rows, self._rows[some]
        stops[some] = self.leaf(path, kind[1 - null // 2], self._moved(pos[some] + 1))
        self._rows = rows
        return self._moved(stops)

    def _skip(self, kind: Any, pos: Index) -> Index:
        """Go over a value."""
        self._spend(len(pos))
        if isinstance(kind, list):
            return self._nullable((), kind, pos)
        name = _name(kind)
        if name in _INTEGERS:
            return self.after_number(pos)
        if name in _TEXTS:
            sizes, start = self._numbers(pos)
            stop = self._moved(np.where((sizes < 0) | (sizes > self._beyond), self._beyond, start + sizes))
            if name == "string":
                self._found.texts.append((self._rows, start, stop - start))
            return stop
        if name in _SIZES:
            return self._moved(pos + _SIZES[name])
        if name == "boolean":
            return self._moved(np.where(self.data[pos] > 1, self._beyond, pos + 1))
        if name == "fixed":
            return self._moved(pos + int(kind["size"]))
        if name == "record":
            for entry in kind["fields"]:
                pos = self._skip(entry["type"], pos)
            return pos
        if name == "array":
            return self._array(kind["items"], pos, None)
        raise _UnusualError

    def _array(self, items: Any, pos: Index, pairs: list[AvroPairs] | None) -> Index:
        """Go over blocks of items, up to an empty one; keep the items of a map by number in `pairs`.

        A negative number of items is followed by their bytes, which nobody needs.
        """
        stops: Index = pos.copy()
        some = np.arange(len(pos))
        all_rows = self._rows
        while len(some):
            counts, at = self._numbers(stops[some])
            sized = np.flatnonzero(counts < 0)
            at[sized] = self.after_number(at[sized])
            counts = np.abs(counts)  # of -2 ** 63 it is that again
            likely = (counts >= 0) & (counts <= self._work // _WORK_OF_PASS)
            stops[some] = np.where(likely, at, self._beyond)
            some = some[likely & (counts > 0)]
            left, counts = some, counts[likely & (counts > 0)]
            while len(left):
                self._rows = all_rows[left]
                item = stops[left]
                stops[left] = item = self._skip(items, item) if pairs is None else self._pair(items, item, pairs)
                counts = counts - 1
                more = (counts > 0) & (item < self._beyond)
                left, counts = left[more], counts[more]
        self._rows = all_rows
        return stops

    def _pair(self, items: Any, pos: Index, pairs: list[AvroPairs]) -> Index:
        """Read an item of a map."""
        fields = items["fields"] if _name(items) == "record" else []
        if [entry["name"] for entry in fields] != ["key", "value"]:
            raise _UnusualError
        key, value = (_name(entry["type"]) for entry in fields)
        if key not in _INTEGERS or value not in (*_INTEGERS, "bytes"):
            raise _UnusualError
        keys, pos = self._numbers(pos)
        if value in _INTEGERS:
            values, pos = self._numbers(pos)
            pairs.append(AvroPairs(self._rows, keys, values, None))
        else:
            start = self.after_number(pos)
            pos = self._skip(value, pos)
            pairs.append(AvroPairs(self._rows, keys, start, pos - start))
        return pos

    def _spend(self, values: int) -> None:
        self._work -= values + _WORK_OF_PASS
        if self._work < 0:
            raise _UnusualError

    def _moved(self, pos: Index) -> Index:
        np.minimum(pos, self._beyond, out=pos)
        return pos

    def after_number(self, pos: Index) -> Index:
        """Go over numbers, or over the sizes of texts."""
        return self._numbers(pos, values=False)[1]

    def _numbers(self, pos: Index, *, values: bool = True) -> tuple[Index, Index]:
        """Read zigzag varints, eight bytes of each at once; return the numbers too if they are asked for."""
        self._spend(len(pos))
        first = self.data[pos]
        if not (first >= 0x80).any():
            small: Index = first.astype(np.int64)
            return (small >> 1) ^ -(small & 1), self._moved(pos + 1)
        words = self._words[pos]
        ends = ~words & _HIGH
        upto = ends ^ (ends - _ONE)
        stops = pos + (np.bitwise_count(upto) >> 3)
        long = np.flatnonzero(ends == 0)
        ninth, tenth = (self.data[pos[long] + k].astype(np.uint64) for k in (8, 9))
        has_tenth = ninth >= 0x80
        stops[long] += 1 + has_tenth
        stops[long[has_tenth & (tenth > 1)]] = self._beyond
        self._moved(stops)
        if not values:
            return stops, stops
        plain = words & upto & _LOW
        for low, high, shift in _GROUPS:
            plain = (plain & low) | ((plain & high) >> shift)
        plain[long] |= (ninth & np.uint64(0x7F)) << np.uint64(56)
        plain[long] |= np.where(has_tenth, tenth << np.uint64(63), np.uint64(0))
        numbers: Index = (plain >> _ONE).view(np.int64) ^ -(plain & _ONE).view(np.int64)
        return numbers, stops

"""Random analysed documents, in the JSON of interop/go, with as many of the corners of a version as go together."""

from __future__ import annotations

import base64
import random
from typing import Any

from interop.driver import to_text

Json = dict[str, Any]

LOCATIONS_BEYOND_FREQUENCY, SYNONYMS, NESTED = 15, 16, 17
"""First versions with these."""
_INDEXED, _STORED, _LOCATED, _VALUES, _UNCOUNTED, _RAW_VALUES = 1, 2, 4, 8, 16, 32 | 64
_RAW_NAMES = ("list", "n")
_NAMES = ("a", "body", "list", "Title", "n", "b64:key", "ünï 字", "z" * 200)
_WORDS = ("", "a", "b", "box", "red", "blue", "green", "ünï", "🦊", "x" * 60, "lorem", "ipsum", "\x00", "\x7f")
_RAW = (b"\xff", b"a\xffb", b"\xff\xff", b"\xc3", b"\x80abc")
_OPTIONS = (0, 1, 2, 3, 3, 5, 7, 9, 11, 11, 13, 15, 15, 15, 15, 17, 27, 31)
_TYPES = "tttndbgsi"
_NUMBERS = (0, 1, 2, 3, 5, 127, 128, 300, 70000, 2**32, 2**40, 2**62)
_LENGTHS = (1, 2, 3, 10, 127, 128, 1000, 65537, 2**24 + 1)
_ODD_LENGTHS = (0, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 5)
"""In a merge zapx cuts them to 31 bits where it makes a single hit, and loses those of 0."""
_TERMS = ("big", "small", "ü", "b64:/w==")
"""In a merge zapx adds the synonyms of the empty term to those of the next."""


def document_set(version: int, seed: int, *, mergeable: bool) -> list[Json]:
    """Make documents for one segment.

    Args:
        version: of the segment.
        seed: what to make them of.
        mergeable: whether to keep off what zapx writes, but cannot merge.
    """
    return _Dice(version, seed, mergeable=mergeable).documents()


class _Dice(random.Random):
    def __init__(self, version: int, seed: int, *, mergeable: bool) -> None:
        super().__init__(seed * 100 + version)
        self.version = version
        self.lengths = _LENGTHS if mergeable else _LENGTHS + _ODD_LENGTHS
        self.synonym_terms = _TERMS if mergeable else (*_TERMS, "")
        self.prefix = self.choice(["d", "d", f"s{seed}-"])  # so that ids stand in several segments
        self.count = 0
        names = self.sample(_NAMES, self.choice([0, 1, 2, 2, 3, 3, 4, 5]))
        self.schema = {name: self._options(name) for name in names}

    def chance(self, percent: int) -> bool:
        return self.randrange(100) < percent

    def documents(self) -> list[Json]:
        return [self._document(0) for _ in range(self.randint(1, 12))]

    # ------------------------------------------------------------------ documents

    def _document(self, depth: int) -> Json:
        self.count += 1
        name: Any = f"{self.prefix}{self.count}"
        if self.count == 1 and self.chance(20):
            name = self.choice(["", "ü", to_text(b"\xff\x00id")])
        fields: list[Json] = []
        names = [field for field in self.schema if self.chance(70)]
        # Sometimes the name of a composite field is that of another too.
        composite = self.choice(["parts", "parts", *names]) if self.chance(15) else None
        for field in names:
            count = self.choice([1, 1, 1, 2, 3])
            # zapx keeps where a location is from in the first instance only.
            sources = names if count == 1 and field != composite else [field]
            fields += [self._field(field, sources) for _ in range(count)]
        if composite is not None:
            tokens = self._tokens([composite, *names])
            options = self._raw(composite, self.choice([1, 5, 5, 9, 13]))
            fields.append({"name": composite, "opt": options, "composite": True, "tokens": tokens})
        if self.version >= SYNONYMS and self.chance(25):
            fields += [self._synonyms() for _ in range(self.randint(1, 2))]
        self.shuffle(fields)
        made: Json = {"fields": fields, "all": self.chance(30)}
        if self.chance(10):
            fields.insert(0, {"name": "_id", "value": name, "opt": 3, "keyword": True})
        else:
            made["id"] = name
        if self.version >= NESTED and self.chance(20) and depth < 3:
            made["kids"] = [self._document(depth + 1) for _ in range(self.randint(1, 3))]
        return made

    def _options(self, name: str) -> int:
        options = self.choice(_OPTIONS)
        if options & _UNCOUNTED and self.version < LOCATIONS_BEYOND_FREQUENCY:
            options &= ~_LOCATED
        return self._raw(name, options)

    def _raw(self, name: str, options: int) -> int:
        """Choose by the name, for zapx panics when it merges a field that is raw in one segment only."""
        raw = self.version >= NESTED and name in _RAW_NAMES and options & _VALUES
        return options | _RAW_VALUES if raw else options

    def _field(self, name: str, sources: list[str]) -> Json:
        options = self._options(name) if self.chance(10) else self.schema[name]
        field: Json = {"name": name, "opt": options, "type": self.choice(_TYPES)}
        located = bool(options & _LOCATED) != self.chance(5)
        if options & _UNCOUNTED and self.version < LOCATIONS_BEYOND_FREQUENCY:
            located = False
        field["tv"] = located
        if self.chance(30):
            field["ap"] = [self._number() for _ in range(self.randint(0, 3))]
        self._value(field)
        if options & _VALUES and self.chance(5):
            # In a merge zapx loses shapes without terms.
            field["shape"] = to_text(self.choice([b"", b"##{}##", b"##\xff\xfe##"]))
        elif self.chance(25):
            field["tokens"] = self._tokens(sources)
        if self.chance(10):
            field["length"] = self.choice(self.lengths)
        return field

    def _value(self, field: Json) -> None:
        if self.chance(10):
            raw = b" ".join(self.choices(_RAW, k=self.randint(1, 3)))
            if self.chance(50):
                field["value64"] = base64.b64encode(raw).decode()
            else:
                field["value"] = to_text(raw)
        else:
            field["value"] = " ".join(self.choices(_WORDS, k=self.choice([1, 2, 3, 5, 40])))
        field["keyword"] = self.chance(25)

    def _tokens(self, sources: list[str]) -> list[Any]:
        tokens = []
        for _ in range(self.randint(0, 6)):
            frequency = self.choice([0, 1, 1, 2, 5, 300])
            term = to_text(self.choice(_RAW)) if self.chance(10) else self.choice(_WORDS)
            most = min(frequency, 3)
            if self.version >= LOCATIONS_BEYOND_FREQUENCY and self.chance(30):
                most = 3
            locations = [self._location(sources) for _ in range(self.randint(0, most))]
            tokens.append([term, frequency, locations if locations or self.chance(50) else None])
        return tokens

    def _location(self, sources: list[str]) -> list[Any]:
        field = self.choice([None, *sources]) if self.chance(50) else None
        start = self._number()
        positions = [self._number() for _ in range(self.randint(1, 3))] if self.chance(30) else None
        return [field, self._number(), start, start + self.randrange(20), positions]

    def _synonyms(self) -> Json:
        # Sometimes the name of a thesaurus is that of a field too.
        name = self.choice(["first", "second", *list(self.schema)[:1]])
        terms = {}
        for _ in range(self.randint(1, 4)):
            terms[self.choice(self.synonym_terms)] = [
                to_text(b"\xfe") if self.chance(10) else self.choice(_WORDS[1:]) for _ in range(self.randint(1, 4))
            ]
        return {"name": name, "syn": terms}

    def _number(self) -> int:
        return self.choice(_NUMBERS) if self.chance(30) else self.randrange(100)


# ---------------------------------------------------------------------- many documents


def chunked_set(count: int) -> list[Json]:
    """Make documents with terms in 1, 1000, 1025, 2500 and all of them, if they are 3,500 or more."""
    found: list[Json] = []
    for i in range(count):
        words = ["all"] * (1 + i % 3)
        words += ["one"] * (i == count // 2) + ["thousand"] * (i % 3 == 0 and i < 3000)
        words += ["edge"] * (i % 3 == 1 and i < 3075) + ["most"] * (i >= 1000)
        fields: list[Json] = [{"name": "t", "value": " ".join(words), "opt": 15, "tv": True}]
        # Not every document, and none of the first chunk, has a value; locations come and go.
        if i >= count * 2 // 3 or i == count // 3:
            fields.append({"name": "late", "value": f"v{i % 7}", "opt": 9, "keyword": True, "tv": i % 2 == 0})
        found.append({"id": f"{i:04}", "fields": fields})
    return found

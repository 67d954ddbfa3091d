"""Files in ``_delta_log``: commits, checkpoints, and which versions can be rebuilt from them.

Specification: Delta's PROTOCOL.md, "Delta Log Entries", "Checkpoints", "Log Compaction Files"::

    00000000000000000007.json                                            commit
    00000000000000000007.checkpoint.parquet                              checkpoint, classic
    00000000000000000007.checkpoint.0000000001.0000000002.parquet        one of several parts
    00000000000000000007.checkpoint.<uuid>.json | .parquet               V2: its files may be in _sidecars/
    00000000000000000004.00000000000000000007.compacted.json             versions 4 to 7 in one file
    00000000000000000007.crc                                             numbers of a version

The whole folder is listed; only audits read ``_last_checkpoint``, a hint to avoid the listing. Compacted files
are not read: the commits that they replace are kept too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dvcodec.core.errors import NotCanonical, UsageError

LOG = "_delta_log"
SIDECARS = f"{LOG}/_sidecars"
LAST_CHECKPOINT = "_last_checkpoint"
_VERSION = "([0-9]{20})"
_COMMIT = re.compile(rf"{_VERSION}\.json")
_CHECKPOINT = re.compile(
    rf"{_VERSION}\.checkpoint\.(?:parquet|([0-9]{{10}})\.([0-9]{{10}})\.parquet|[0-9A-Za-z-]{{36}}\.(?:json|parquet))"
)
_OTHER = re.compile(rf"{_VERSION}\.crc|{_VERSION}\.{_VERSION}\.compacted\.json|{LAST_CHECKPOINT}")


@dataclass(frozen=True, slots=True)
class Log:
    """The files of a log by version.

    Attributes:
        location: location of the log's folder, for errors.
        commits: version -> name.
        checkpoints: version -> its checkpoints, each the names of its files, all there. Any of several will do.
        names: names of all files that belong to the log.
    """

    location: str
    commits: Mapping[int, str]
    checkpoints: Mapping[int, tuple[tuple[str, ...], ...]]
    names: frozenset[str]

    @classmethod
    def from_names(cls, location: str, names: Iterable[str]) -> Log:
        """Sort the file names in a log's folder; other files are ignored.

        >>> log = Log.from_names("log", [f"{v:020}.json" for v in (3, 4, 5)] + [f"{3:020}.checkpoint.parquet"])
        >>> log.versions
        (3, 4, 5)
        """
        commits: dict[int, str] = {}
        parts: dict[tuple[int, int], dict[int, str]] = defaultdict(dict)
        found: dict[int, list[tuple[str, ...]]] = defaultdict(list)
        kept = set()
        for name in names:
            if match := _COMMIT.fullmatch(name):
                commits[int(match[1])] = name
            elif match := _CHECKPOINT.fullmatch(name):
                if match[2] is None:
                    found[int(match[1])].append((name,))
                else:
                    parts[int(match[1]), int(match[3])][int(match[2])] = name
            elif not _OTHER.fullmatch(name):
                continue
            kept.add(name)
        for (version, count), named in parts.items():
            if len(named) == count and min(named) == 1 and max(named) == count:
                found[version].append(tuple(named[part] for part in sorted(named)))
            else:
                kept.difference_update(named.values())  # incomplete: readers have to ignore it
        checkpoints = {version: tuple(sorted(several)) for version, several in found.items()}
        return cls(location, commits, checkpoints, frozenset(kept))

    @property
    def versions(self) -> tuple[int, ...]:
        """Versions that can be rebuilt, ascending: from a checkpoint or from version 0 on, without gaps."""
        found: list[int] = []
        for version in sorted({*self.commits, *self.checkpoints}):
            if version == 0 or version in self.checkpoints or (found and found[-1] == version - 1):
                found.append(version)
        return tuple(found)

    @property
    def latest(self) -> int:
        """The current version.

        Raises:
            NotCanonical: there is none, or a commit before it is missing.
        """
        latest = max({*self.commits, *self.checkpoints}, default=None)
        if latest is None:
            raise NotCanonical("log", source=self.location, expected="commits or a checkpoint", actual="none")
        missing = self._missing(latest)
        if missing is not None:
            wanted = f"{missing:020}.json or a checkpoint, to rebuild version {latest}"
            raise NotCanonical("log", source=self.location, expected=wanted, actual="neither")
        return latest

    @property
    def is_broken(self) -> bool:
        """Whether a commit before the current version is missing."""
        latest = max({*self.commits, *self.checkpoints}, default=None)
        return latest is not None and self._missing(latest) is not None

    def check(self, version: int) -> None:
        """Check that a version can be rebuilt.

        Raises:
            UsageError: it cannot.
        """
        if version not in self.commits and version not in self.checkpoints:
            raise UsageError(f"{self.location}: there is no version {version}")
        missing = self._missing(version)
        if missing is not None:
            raise UsageError(f"{self.location}: version {version} cannot be rebuilt, version {missing} is missing")

    def needs(self, version: int) -> bool:
        """Whether the checkpoints of a version are needed: no commits lead to it from an earlier one, or from 0."""
        return version not in self.commits or self._missing(version - 1) is not None

    def _missing(self, version: int) -> int | None:
        """Return the first version, going back, that has neither commit nor checkpoint; None if none is missing."""
        while version in self.commits and version not in self.checkpoints:
            version -= 1
        return None if version < 0 or version in self.checkpoints else version

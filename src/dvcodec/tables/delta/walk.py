"""The versions of a log one after another, each by the data files that its commit adds or removes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from dvcodec.tables.delta.action_checks import ActionChecks
from dvcodec.tables.delta.actions import FileKey
from dvcodec.tables.delta.replay import Replay, State
from dvcodec.tables.json_fields import JsonFields

__all__ = ["LogWalk"]


class LogWalk:
    """Replays commits. A step costs what its commit has, however many files the table has.

    Args:
        state: where the walk starts.
        source: the log, for errors.

    Attributes:
        version: the version that it is at.
    """

    def __init__(self, state: State, source: str) -> None:
        self.version = state.version
        self._source = source
        self._replay = Replay.after(state)
        self._keys: defaultdict[str, dict[FileKey, None]] = defaultdict(dict)
        for key in state.files:
            self._keys[key[0]][key] = None

    def step(self, actions: Iterable[JsonFields]) -> tuple[State, State]:
        """Go to the next version.

        Args:
            actions: of its commit.

        Returns:
            The states before and after it, of the data files that it adds or removes alone: without transactions and
            checks. They are complete for each of these files.

        Raises:
            DecodeError: an action is corrupt.
        """
        replay = self._replay
        old = replay.state(self.version, self._source)
        changed = replay.apply(actions)
        paths = dict.fromkeys(path for path, _ in changed)
        before = {key: changed.get(key) or replay.files[key] for path in paths for key in self._keys[path]}
        for key in changed:
            if key in replay.files:
                self._keys[key[0]][key] = None
            else:
                self._keys[key[0]].pop(key, None)
        after = {key: replay.files[key] for path in paths for key in self._keys[path]}
        for path in paths:
            if not self._keys[path]:
                del self._keys[path]
        self.version += 1
        new = replay.state(self.version, self._source)
        none, checks = dict[str, int](), ActionChecks()
        return (
            replace(old, files=before, transactions=none, checks=checks),
            replace(new, files=after, transactions=none, checks=checks),
        )

"""Where a peer and dvcodec part ways: such an input belongs to a kind with a name and a reason, or it is a finding.

Kinds go by what dvcodec reports. Where a peer skips a check that can be asked not to be made, what is left
has to be the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dvcodec import DecodeError

Rows = dict[int, Any]
SAME = object()
LONGEST_EXAMPLE = 2048
"""Bytes: of longer ones only the beginning is kept."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of difference.

    Attributes:
        name: in a few words.
        reason: why dvcodec does what it does.
        refused: regular expression over ``ErrorClass: what``: what dvcodec refuses and the peer accepts.
    """

    name: str
    reason: str
    refused: str


class Comparison:
    """Compares with one peer, and counts the kinds."""

    def __init__(self, peer: str, kinds: tuple[Kind, ...], differing: dict[str, str] | None = None) -> None:
        """`differing`: name -> reason of what both accept and read as different values."""
        self.peer = peer
        self.kinds: dict[str, dict[str, Any]] = {}
        self._rules = [(re.compile(kind.refused), kind) for kind in kinds]
        self._differing = differing or {}

    def note(self, name: str, reason: str, data: bytes) -> None:
        """Count a difference, and keep its shortest example."""
        entry = self.kinds.setdefault(name, {"count": 0, "reason": reason, "bytes": 1 << 30, "example": ""})
        entry["count"] += 1
        if len(data) < entry["bytes"]:
            entry["bytes"] = len(data)
            entry["example"] = data[:LONGEST_EXAMPLE].hex()

    def compare(
        self,
        data: bytes,
        ours: Callable[[bytes], Any],
        theirs: Callable[[bytes], Any],
        *,
        differing: Callable[[Any, Any], str | None] = lambda _ours, _theirs: None,
    ) -> None:
        """Hold what two readers say of the same bytes against each other.

        Args:
            data: the bytes.
            ours: raises `DecodeError` if it refuses them.
            theirs: raises anything if it refuses them.
            differing: names the kind of two values that are not equal; None: it has no name.

        Raises:
            AssertionError: a difference of no known kind.
            DecodeError: both refuse, or only dvcodec does, which is counted.
        """
        try:
            found: Any = theirs(data)
            refused: str | None = None
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  (whatever a peer refuses with, panics of Rust too)
            found, refused = None, f"{type(error).__name__}: {str(error).splitlines()[0][:90] if str(error) else ''}"
        try:
            value = ours(data)
        except DecodeError as error:
            if refused is None:
                self._refused_here(data, error)
            raise
        if refused is not None:
            reason = re.sub(r"0x[0-9a-f]+|\d+|'.*'|\".*\"", "..", refused)[:70]
            self.note(
                f"accepted by dvcodec only: {reason}", "valid by the specification; the peer does not read it", data
            )
        elif value != found:
            name = differing(value, found)
            assert name is not None, f"{self.peer} reads something else: {found!r:.200} in place of {value!r:.200}"
            self.note(name, self._differing[name], data)

    def _refused_here(self, data: bytes, error: DecodeError) -> None:
        text = f"{type(error).__name__}: {error.what}"
        for rule, kind in self._rules:
            if rule.search(text):
                self.note(kind.name, kind.reason, data)
                return
        raise AssertionError(f"{self.peer} accepts what is refused here, and it is of no known kind: {text}: {error}")

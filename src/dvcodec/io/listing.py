"""Listings: the files below a folder, as a store listed them."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from dvcodec.io.file_key import file_key

__all__ = ["Listed", "Listing", "is_below", "location_key"]

_FRESH_SECONDS = 30.0
"""How long the listing made to open a table is reused for files below its folder."""
_ACCOUNT = re.compile(r"@[^/]*")


@dataclass(frozen=True, slots=True)
class Listed:
    """A file below a folder.

    Attributes:
        location: path or URL, spelled as the folder is.
        size: bytes.
        modified_ms: last modification, milliseconds since 1970 UTC; None if the storage does not report it.
    """

    location: str
    size: int
    modified_ms: int | None = None


class Listing:
    """A recursive listing of a folder.

    Args:
        root: the folder.
        files: all files below it.
    """

    def __init__(self, root: str, files: list[Listed]) -> None:
        self.root, self._files = root, files
        self.key = location_key(root)
        self._made = time.monotonic()

    @property
    def is_fresh(self) -> bool:
        """Whether it is recent enough to reuse."""
        return time.monotonic() - self._made < _FRESH_SECONDS

    @cached_property
    def _children(self) -> dict[str, list[str]]:
        """Folder -> names in it."""
        found: dict[str, dict[str, None]] = {}
        root, chain, outer = self.root.partition("::")
        root = root.rstrip("/")
        for file in self._files:
            folder, name = _split(file.location.removesuffix(chain + outer))
            while name not in (names := found.setdefault(folder, {})):
                names[name] = None
                if folder == root:
                    break
                folder, name = _split(folder)
        return {folder: list(names) for folder, names in found.items()}

    def names(self, folder: str) -> list[str]:
        """Return the names in the root, or in a folder below it."""
        return self._children.get(folder.partition("::")[0].rstrip("/"), [])

    def below(self, folder: str) -> list[Listed]:
        """Return the files below the root, or below one of its folders."""
        root = folder.rstrip("/")
        return self._files if root == self.root else [one for one in self._files if one.location.startswith(f"{root}/")]


def _split(location: str) -> tuple[str, str]:
    folder, _, name = location.rpartition("/")
    return folder.rstrip("/"), name


def location_key(location: str) -> str:
    """Return a key that all spellings of a location share; two different locations may share it too.

    It ignores percent-encoding, which web addresses may have, and the account in URLs of Azure.
    """
    return _ACCOUNT.sub("", file_key(unquote(location)))


def is_below(key: str, folder: str) -> bool:
    """Whether a location is a folder or below it; both are `location_key`s."""
    return key == folder or key.startswith(f"{folder.rstrip('/')}/")

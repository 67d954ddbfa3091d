"""What a URL means to who reads files: an object, all that is below a folder, or what matches a pattern."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dvcodec.io.paths import join
from dvcodec.io.storage import Listed, Storage
from dvcodec.io.store import Reason, StoreError, open_store

__all__ = ["FoundFiles", "find_remote", "has_pattern", "pattern_regex", "without_query"]

_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """What was found by a URL.

    Attributes:
        files: by location.
        folder: what was listed: the URL, or the part of a pattern before its first magic character; None where the
            URL is an object's own.
        is_pattern: whether it was a pattern.
    """

    files: list[Listed]
    folder: str | None = None
    is_pattern: bool = False


def has_pattern(url: str) -> bool:
    """Whether a URL, query aside, may be a pattern: it has ``*``, ``?`` or ``[`` in its key."""
    return _MAGIC.search(without_query(url.partition("::")[0]).partition("://")[2]) is not None


def without_query(url: str) -> str:
    """Return a web address without its query, any other URL as it is."""
    return url.partition("?")[0] if url.lower().startswith(("http:", "https:")) else url


def find_remote(url: str, storage: Storage) -> FoundFiles | None:
    """Find the files that a URL means; None if there is nothing.

    What is there under the very name comes first, then a folder, then a pattern: ``*`` and ``?`` are of one step,
    ``**`` of any number of them.

    Args:
        url: with a scheme, not ``file:``.
        storage: by which it is looked up.

    Raises:
        UsageError: an unknown protocol or option.
        OSError: the store cannot be reached.
    """
    store, key = open_store(url, storage.options)
    denied: StoreError | None = None
    if key and not url.endswith("/"):
        try:
            found = store.head(key)
        except StoreError as err:
            if err.reason in (Reason.DENIED, Reason.BAD_CREDENTIALS):
                denied = err  # S3 says so of an object that is not there, and never why: a list has its words
            elif err.reason is not Reason.NO_OBJECT:
                raise
        else:
            return FoundFiles([Listed(url, found.size or 0, found.modified_ms)])
    try:
        if has_pattern(url):
            matching = _matching(url, storage)
        else:
            inside = sorted(storage.walk(url), key=lambda file: file.location)
            matching = FoundFiles(inside, url.rstrip("/")) if inside else None
    except StoreError:
        if denied is None or not url.lower().startswith("http"):
            raise
        raise denied from None  # web servers without lists say so in words that do not help
    if matching is None and denied is not None:
        raise denied
    return matching


def _matching(url: str, storage: Storage) -> FoundFiles | None:
    """List the folder of that exact name, else the keys that match: one listing of the prefix has both."""
    inner, chain, outer = url.partition("::")
    before = _MAGIC.split(inner, maxsplit=1)[0].rpartition("/")[0]
    base = before + chain + outer
    matches = pattern_regex(inner[len(before) :].strip("/"))
    start = len(join(base, "")) - len(chain + outer) if chain else len(base) + 1
    inside: list[Listed] = []
    files: list[Listed] = []
    for file in _without_markers(list(storage.walk(base))):
        spelled = file.location[: len(file.location) - len(chain + outer)]
        if spelled.startswith(f"{inner.rstrip('/')}/"):
            inside.append(file)
        elif matches.fullmatch(spelled[start:]):
            files.append(file)
    if inside:
        return FoundFiles(sorted(inside, key=lambda file: file.location), url.rstrip("/"))
    return FoundFiles(sorted(files, key=lambda file: file.location), base, True) if files else None


def pattern_regex(pattern: str) -> re.Pattern[str]:
    """Translate a pattern into a regular expression for the whole of a name.

    >>> [bool(pattern_regex("a/**/*.bin").fullmatch(name)) for name in ("a/x.bin", "a/b/c/x.bin", "a/x.puffin")]
    [True, True, False]
    """
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            parts.append("(?:[^/]+/)*")
            at += 3
        elif pattern[at] == "*":
            parts.append(".*" if pattern[at:] == "**" else "[^/]*")
            at += 2 if pattern[at:] == "**" else 1
        elif pattern[at] == "?":
            parts.append("[^/]")
            at += 1
        elif pattern[at] == "[" and (end := pattern.find("]", at + 2 + pattern.startswith(("!", "^"), at + 1))) > 0:
            parts.append(_set_regex(pattern[at + 1 : end]))
            at = end + 1
        else:
            parts.append(re.escape(pattern[at]))
            at += 1
    return re.compile("".join(parts), re.DOTALL)


def _set_regex(inside: str) -> str:
    """Translate what stands in brackets; a range that ends before it begins matches nothing."""
    letters = re.sub(r"([\\\[\]&~|])", r"\\\1", inside[1:] if inside[0] in "!^" else inside).replace("--", "-\\-")
    try:
        re.compile(found := f"[{'^' if inside[0] in '!^' else ''}{letters}]")
    except re.error:
        return "(?!)"
    return found


def _without_markers(files: list[Listed]) -> list[Listed]:
    """Leave out empty objects that stand for folders: ``t/`` in a list of ``t``, and ``t/sub/`` beside ``t/sub/x``."""
    empty = {file.location.rstrip("/") for file in files if not file.size}
    if not empty:
        return files
    folders: set[str] = set()
    for file in files:
        folder = file.location.rstrip("/").rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return [file for file in files if file.size or not (file.location.endswith("/") or file.location in folders)]

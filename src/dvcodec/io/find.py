"""Find the files of a URL: an object, a folder's files, or the matches of a pattern."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dvcodec.io.storage import Listed, Storage
from dvcodec.io.store import Reason, StoreError, open_store
from dvcodec.io.target import join

_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """Files found for a URL.

    Attributes:
        files: sorted by location.
        folder: the folder that was listed: the URL, or the part of a pattern before its first wildcard; None for an
            object.
        is_pattern: whether the URL was used as a pattern.
    """

    files: list[Listed]
    folder: str | None = None
    is_pattern: bool = False


def has_pattern(url: str) -> bool:
    """Whether the key of a URL, without query, has ``*``, ``?`` or ``[``."""
    return _MAGIC.search(without_query(url.partition("::")[0]).partition("://")[2]) is not None


def without_query(url: str) -> str:
    """Return a web address without its query, any other URL unchanged."""
    return url.partition("?")[0] if url.lower().startswith(("http:", "https:")) else url


def find_remote(url: str, storage: Storage) -> FoundFiles | None:
    """Find the files of a URL; None if there are none.

    The URL is tried as an object, then as a folder, then as a pattern, where ``*`` and ``?`` match within one path
    component and ``**`` matches any number of them.

    Args:
        url: with a scheme, not ``file:``.
        storage: to look it up.

    Raises:
        UsageError: an unknown protocol or option.
        OSError: the store cannot be reached.
    """
    _, key = open_store(url, storage.options)
    denied: StoreError | None = None
    if key and not url.endswith("/"):
        try:
            found = storage.stat(url)
        except StoreError as err:
            if err.reason in (Reason.DENIED, Reason.BAD_CREDENTIALS):
                denied = err  # S3's answer for a missing object too, without a message: the listing below has one
            elif err.reason is not Reason.NO_OBJECT:
                raise
        else:
            return FoundFiles([found])
    try:
        if has_pattern(url):
            matching = _matching(url, storage)
        else:
            inside = sorted(storage.walk(url), key=lambda file: file.location)
            matching = FoundFiles(inside, url.rstrip("/")) if inside else None
    except StoreError:
        if denied is None or not url.lower().startswith("http"):
            raise
        raise denied from None  # web servers without listings give unhelpful errors
    if matching is None and denied is not None:
        raise denied
    return matching


def _matching(url: str, storage: Storage) -> FoundFiles | None:
    """Return the files in the folder of that exact name, else those that match: one listing of the prefix has both."""
    inner, chain, outer = url.partition("::")
    before = "".join(_MAGIC.split(inner, maxsplit=1)[0].rpartition("/")[:2])
    if not before.rstrip("/").endswith(":"):  # not the root of zip:// or hdfs:///
        before = before[:-1]
    base = before + chain + outer
    matches = pattern_regex(inner[len(before) :].strip("/"))
    start = len(join(before, ""))
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
    """Translate a pattern into a regular expression for whole names.

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
    """Translate the inside of brackets; a reversed range matches nothing."""
    letters = re.sub(r"([\\\[\]&~|])", r"\\\1", inside[1:] if inside[0] in "!^" else inside).replace("--", "-\\-")
    try:
        re.compile(found := f"[{'^' if inside[0] in '!^' else ''}{letters}]")
    except re.error:
        return "(?!)"
    return found


def _without_markers(files: list[Listed]) -> list[Listed]:
    """Drop folder markers: empty objects such as ``t/`` in a listing of ``t``, and ``t/sub`` beside ``t/sub/x``."""
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

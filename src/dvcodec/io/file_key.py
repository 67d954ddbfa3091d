"""Identity of data files: names with the same `file_key` are the same file.

Engines spell the same file differently: ``s3://`` and ``s3a://``, ``file:/x`` and ``/x``, ``a//b`` and ``a/b``. Tables
store plain text; Spark's ``_metadata.file_path`` and Delta's log percent-encode. A name does not show whether it is
encoded, because a file may really be named ``a%20b`` (folders of Hive partitions are), so `file_key` never decodes:
`merge_spellings` resolves this by the other names in a job, other callers by the files that exist.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast
from urllib.parse import unquote

from dvcodec.core.errors import UsageError

SAME_SCHEMES = {"s3": ("s3a", "s3n"), "abfs": ("abfss", "az", "azure", "adl"), "wasb": ("wasbs",), "gs": ("gcs",)}
"""Scheme -> other clients or transports of the same storage."""
LOCAL = r"^(?:/+|[Ff][Ii][Ll][Ee]:(?:/(?!/)|//(?:[Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt])?/+))"
"""Start of an absolute local path; ``file://host/`` is on another machine."""
ON_DRIVE = r"^[A-Za-z]:(?:/(?!/)|\\)"
"""Start of an absolute path on a drive of Windows."""

ROOTED_SCHEMES = ("dbfs", "hdfs", "viewfs")
ROOTED = rf"^((?i:{'|'.join(ROOTED_SCHEMES)})):/(?!/)"
"""Start of an absolute path in Hadoop's default file system, without the empty host (``hdfs:/x``)."""

_LOG = logging.getLogger("dvcodec.paths")
_SCHEMES = {other: scheme for scheme, others in SAME_SCHEMES.items() for other in others}
_IS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*").fullmatch
_LOCAL = re.compile(LOCAL)
_ROOTED = re.compile(ROOTED)
_HEAD = re.compile(r"/|file:/(?:(?!/)|//)|(?!file:)[A-Za-z][A-Za-z0-9+.-]*://[^/\n]+/")
"""Start that the names of a table usually share: the root, or a host."""
_ON_DRIVE = re.compile(ON_DRIVE)
_STAYS = re.compile(r"/(?:\./)+")
_SLASHES = re.compile(r"/{2,}")
_MALFORMED = re.compile(r"%(?![0-9A-Fa-f]{2})").search

Name = TypeVar("Name", bound="str | None")


def check_data_file(name: str | None) -> None:
    """Check that metadata, which is UTF-8, can store the name of a data file.

    Raises:
        UsageError: the name has a lone surrogate.
    """
    if name is not None and not name.isascii():
        try:
            name.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{name!a:.200}: a data file whose name is not UTF-8") from None


def file_key(path: str) -> str:
    r"""Return a key that all plain-text (not percent-encoded) spellings of a file share.

    Equal are ``/x``, ``file:/x``, ``file:///x`` and ``file://localhost/x``; ``hdfs:/x`` and ``hdfs:///x``; ``s3``,
    ``s3a`` and ``s3n``; ``abfs``, ``abfss``, ``az``, ``azure`` and ``adl``; ``wasb`` and ``wasbs``; ``gs`` and ``gcs``;
    schemes, and hosts of web addresses, in upper and lower case. Repeated and trailing slashes are ignored, in object
    stores too: Hadoop's clients drop them. On a drive of Windows, ``c:\x``, ``C:/x`` and ``file:///C:/x`` are equal.

    Not resolved: ``.`` and ``..``, aliases of hosts, default ports, percent-encoding (see `decoded_key`).

    >>> file_key("s3a://lake/a b"), file_key("file:///a//b"), file_key("S3://lake/t//a%20b")
    ('s3://lake/a b', '/a/b', 's3://lake/t/a%20b')
    """
    if path.startswith("/"):
        return _tidy(path) or "/"
    scheme, url, rest = path.partition("://")
    if url and _IS_SCHEME(scheme):
        scheme = scheme.lower()
        if scheme != "file":
            if rest.startswith("/"):  # hdfs:///x: an empty host
                return f"{_SCHEMES.get(scheme, scheme)}:///{_tidy(rest).lstrip('/')}"
            if scheme in ("http", "https"):
                host, slash, key = rest.partition("/")
                rest = host.lower() + slash + key
            return f"{_SCHEMES.get(scheme, scheme)}://{_tidy(rest)}"
        local = _LOCAL.match(path)
        return (_tidy("/" + path[local.end() :]) or "/") if local else f"file://{_tidy(rest)}"
    if path[:6].lower() == "file:/":
        return _tidy(path[5:]) or "/"
    rooted = _ROOTED.match(path) if ":" in path else None
    if rooted:
        return f"{rooted[1].lower()}:///{_tidy(path[rooted.end() :])}"
    if ":" in path and _ON_DRIVE.match(path):
        return "/" + path[0].upper() + _tidy(path[1:].replace("\\", "/"))
    return _tidy(path)


def _tidy(path: str) -> str:
    """Drop repeated and trailing slashes."""
    if "//" in path:
        path = _SLASHES.sub("/", path)
    return path.removesuffix("/")


def file_keys(paths: list[str]) -> list[str]:
    """Return the `file_key` of many names; the same list if all names are their own keys.

    Names of one table usually share their start, which a few operations on the whole list detect.
    """
    if not paths:
        return paths
    low, high = min(paths), max(paths)
    head = shared_head(low, high)
    text = "\n".join(paths)
    if head:
        # Only slashes can differ from the key.
        uniform = text.count("//") == len(paths) * head.count("//")
        if uniform and "/\n" not in text and not text.endswith("/"):
            new = file_key(f"{head}x")[:-1]
            return paths if new == head else [new + path[len(head) :] for path in paths]
    elif "/" not in text and ":" not in text:
        return paths
    return [file_key(path) for path in paths]


def place_keys(paths: list[str]) -> list[str]:
    """Return the `file_keys` of many names, without steps ``.``, which lead nowhere.

    >>> place_keys(["/t/./a", "file:/t/.//./a", "/t/.a"])
    ['/t/a', '/t/a', '/t/.a']
    """
    return [_STAYS.sub("/", key) if "/./" in key else key for key in file_keys(paths)]


def shared_head(low: str, high: str) -> str:
    """Return the root or host that names share, given the least and the greatest of them; empty if they share none.

    If these two begin with it, so do all in between.
    """
    begin = _HEAD.match(low)
    return begin[0] if begin and high.startswith(begin[0]) else ""


def decoded_key(path: str) -> str | None:
    """Return the `file_key` of a percent-decoded name; None if it is not percent-encoded.

    A ``+`` is a plus. A name with an invalid ``%`` escape, or one that does not decode to UTF-8, is not encoded.

    >>> decoded_key("file:/t/a%20b"), decoded_key("/t/a b"), decoded_key("/t/50%")
    ('/t/a b', None, None)
    """
    if "%" not in path or _MALFORMED(path):
        return None
    try:
        return file_key(unquote(path, errors="strict"))
    except UnicodeDecodeError:
        return None


def named_as(path: str | None, wanted: str | None) -> bool:
    """Whether two names are the same file; True if `wanted` is None."""
    return wanted is None or (path is not None and (path == wanted or file_key(path) == file_key(wanted)))


def undecidable(encoded: str, plain: str) -> UsageError:
    """Return the error for two names that may be the same file, one of them percent-encoded."""
    return UsageError(
        f"{encoded!r} and {plain!r} may be one data file, percent-encoded and in plain text, or two files: the "
        "names alone do not show. Spell both in plain text (dvcodec.spark.paths.data_file_of decodes Spark's)"
    )


def merge_spellings(*inputs: Iterable[Name]) -> dict[Name, Name]:
    """Map each name to the first spelling of its file.

    Names with the same `file_key` are the same file; this is logged at INFO (logger ``dvcodec.paths``).

    Args:
        inputs: the names of one table, file or mapping each. Within one input all files are spelled in the same way:
            ``a b`` and ``a%20b`` are two files there. None maps to itself.

    Raises:
        UsageError: names of two inputs may be the same file, and no input has both: one is percent-encoded and the
            other is not, or is encoded differently; or only one has the account in a URL of Azure.

    >>> merge_spellings(["/t/x"], ["file:///t/x", "/t/y"])
    {'/t/x': '/t/x', 'file:///t/x': '/t/x', '/t/y': '/t/y'}
    """
    lists = [list(dict.fromkeys(some)) for some in inputs]
    first: dict[str, Name] = {}
    found: dict[Name, Name] = {}
    keys: list[set[str]] = []
    for names in lists:
        named = [name for name in names if name is not None]
        by_name = dict(zip(named, file_keys(cast("list[str]", named)), strict=True))
        keys.append(set(by_name.values()))
        for name in names:
            found[name] = name if name is None else first.setdefault(by_name[name], name)
    if len(lists) > 1:

        def share_input(key: str, other: str) -> bool:
            return any(key in some and other in some for some in keys)

        _check_accounts(first, share_input)
        check_encodings(first, share_input)
    log_merged_spellings([(name, kept) for name, kept in found.items() if name != kept])
    return found


def check_encodings(named: Mapping[str, str | None], share_input: Callable[[str, str], bool]) -> None:
    """Refuse a name and its percent-encoded spelling, unless one input has both.

    Args:
        named: `file_key` -> a name with this key.
        share_input: whether one input has files of both keys.

    Raises:
        UsageError: names of two inputs may be the same file; see `undecidable`.
    """
    encoded: dict[str, str] = {}
    for key, name in named.items():
        plain = decoded_key(key)
        if plain is None or plain == key:
            continue
        for other in {plain, encoded.setdefault(plain, key)} - {key}:
            if other in named and not share_input(key, other):
                raise undecidable(str(name), str(named[other]))


def _check_accounts(first: Mapping[str, str | None], share_input: Callable[[str, str], bool]) -> None:
    """Raise `UsageError` if a URL of Azure has the account in one input, and lacks it in another."""
    bare = {key: name for key, name in first.items() if key.startswith("abfs://")}
    for key, name in bare.items():
        container, account, rest = key.partition("@")
        other = f"{container}/{rest.partition('/')[2]}"
        if account and other in bare and not share_input(key, other):
            raise UsageError(
                f"{name!r} and {bare[other]!r} may be one data file, or files of two storage accounts: spell the "
                "account in both"
            )


def log_merged_spellings(pairs: list[tuple[Name, Name]]) -> None:
    """Log at INFO names that are other spellings of a file: (spelling, the one that is kept)."""
    if pairs:
        count = "one data file is" if len(pairs) == 1 else f"{len(pairs)} data files are"
        _LOG.info("%s spelled in two ways, the first is kept: %r for %r", count, pairs[0][1], pairs[0][0])


def path_below(path: str, folder: str) -> str | None:
    """Return a path relative to a folder, None if it is not below it; both in plain text.

    In object stores, repeated slashes in the relative path are kept: ``a//b`` can be opened only by that name.

    >>> path_below("s3a://lake//t/p=1//x", "s3://lake/t/"), path_below("file:/t2/x", "/t")
    ('p=1//x', None)
    """
    root, key = file_key(folder), file_key(path)
    if not key.startswith(root if root.endswith("/") else f"{root}/"):
        return None
    if key.startswith("/"):
        return key[len(root) :].lstrip("/")
    steps = len([step for step in root.rpartition("://")[2].split("/") if step])
    rest = path.partition("://")[2] if "://" in path else _ROOTED.sub("", path)
    for _ in range(steps):
        rest = rest.lstrip("/").partition("/")[2]
    return rest if steps else rest.lstrip("/")

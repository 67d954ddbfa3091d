"""Whether two names are one file: `file_key` decides it, here and for every room above.

Engines spell one file in many ways: ``s3://`` and ``s3a://``, ``file:/x`` and ``/x``, ``a//b`` and ``a/b``. Tables
spell in plain text, Spark's ``_metadata.file_path`` and Delta's log percent-encode. A name alone does not say whether
it is encoded, because a file may really be called ``a%20b`` (folders of Hive partitions are), so `file_key` never
decodes: what a name means is decided among the names of a job (`unite_spellings`), or among the files that are there.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import TypeVar, cast
from urllib.parse import unquote

from dvcodec.core.errors import UsageError

__all__ = [
    "LOCAL",
    "ROOTED",
    "ROOTED_SCHEMES",
    "SAME_SCHEMES",
    "decoded_key",
    "file_key",
    "file_keys",
    "log_united",
    "named_as",
    "path_below",
    "undecidable",
    "unite_spellings",
]

SAME_SCHEMES = {"s3": ("s3a", "s3n"), "abfs": ("abfss", "az", "azure", "adl"), "wasb": ("wasbs",), "gs": ("gcs",)}
"""Schemes that are other clients, or other transports, of the same storage."""
LOCAL = r"^(?:/+|[Ff][Ii][Ll][Ee]:(?:/(?!/)|//(?:[Ll][Oo][Cc][Aa][Ll][Hh][Oo][Ss][Tt])?/+))"
"""What a path from the root of this machine begins with; ``file://host/`` is another machine's."""

ROOTED_SCHEMES = ("dbfs", "hdfs", "viewfs")
ROOTED = rf"^((?i:{'|'.join(ROOTED_SCHEMES)})):/(?!/)"
"""What a path from the root of Hadoop's default file system begins with, where no empty host is written."""

_LOG = logging.getLogger("dvcodec.paths")
_SCHEMES = {other: scheme for scheme, others in SAME_SCHEMES.items() for other in others}
_IS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*").fullmatch
_LOCAL = re.compile(LOCAL)
_ROOTED = re.compile(ROOTED)
_HEAD = re.compile(r"/|file:/(?:(?!/)|//)|(?!file:)[A-Za-z][A-Za-z0-9+.-]*://[^/\n]+/")
"""What names of one table have in common at least: the root, or a host."""
_SLASHES = re.compile(r"/{2,}")
_MALFORMED = re.compile(r"%(?![0-9A-Fa-f]{2})").search

Name = TypeVar("Name", bound="str | None")


def file_key(path: str) -> str:
    """Return the form in which all spellings of one file in plain text (not percent-encoded) are equal.

    Equal are ``/x``, ``file:/x``, ``file:///x`` and ``file://localhost/x``; ``hdfs:/x`` and ``hdfs:///x``; ``s3``,
    ``s3a`` and ``s3n``; ``abfs``, ``abfss``, ``az``, ``azure`` and ``adl``; ``wasb`` and ``wasbs``; ``gs`` and ``gcs``;
    schemes, and hosts of web addresses, in upper and lower case. Slashes that follow a slash, and those at the end, do
    not count, in object stores too: Hadoop's clients drop them.

    Not done: resolving ``.`` and ``..``, comparing hosts or ports, percent-decoding (see `decoded_key`).

    >>> file_key("s3a://lake/a b"), file_key("file:///a//b"), file_key("S3://lake/t//a%20b")
    ('s3://lake/a b', '/a/b', 's3://lake/t/a%20b')
    """
    if path.startswith("/"):
        return _tidy(path) or "/"
    scheme, url, rest = path.partition("://")
    if url and _IS_SCHEME(scheme):
        scheme = scheme.lower()
        if scheme != "file":
            if rest.startswith("/"):  # hdfs:///x: no host, the path begins at once
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
    return _tidy(path)


def _tidy(path: str) -> str:
    """Drop slashes that follow another, and those at the end."""
    if "//" in path:
        path = _SLASHES.sub("/", path)
    return path.removesuffix("/")


def file_keys(paths: list[str]) -> list[str]:
    """Return the `file_key` of each of many names; the list itself where each is its own key.

    Names of one table begin alike, which is found without looking at them one by one.
    """
    if not paths:
        return paths
    low, high = min(paths), max(paths)
    begin = _HEAD.match(low)
    head = begin[0] if begin else ""
    text = "\n".join(paths)
    if head:
        # All begin as the first and the last in order do, and are no longer than that: slashes are left to look at.
        alike = high.startswith(head) and text.count("//") == len(paths) * head.count("//")
        if alike and "/\n" not in text and not text.endswith("/"):
            new = file_key(f"{head}x")[:-1]
            return paths if new == head else [new + path[len(head) :] for path in paths]
    elif "/" not in text and ":" not in text:
        return paths
    return [file_key(path) for path in paths]


def decoded_key(path: str) -> str | None:
    """Return the `file_key` of a name taken for a percent-encoded URI; None if that is the same name.

    A ``+`` is a plus. A name with a ``%`` that encodes nothing, or nothing in UTF-8, is not a URI.

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
    """Whether a name is a spelling of the file that is wanted; of None, any is."""
    return wanted is None or (path is not None and (path == wanted or file_key(path) == file_key(wanted)))


def undecidable(encoded: str, plain: str) -> UsageError:
    """Return the error for two names of which one may be the other's percent-encoded spelling."""
    return UsageError(
        f"{encoded!r} and {plain!r} may be one data file, percent-encoded and in plain text, or two: the names "
        "alone do not say. Spell both sides in plain text first (dvcodec.spark.paths.data_file_of decodes Spark's)"
    )


def unite_spellings(*inputs: Iterable[Name]) -> dict[Name, Name]:
    """Return each name with the representative of its file: the first spelling of it, in the order given.

    Names of one `file_key` are one file, which is logged at INFO (logger ``dvcodec.paths``).

    Args:
        inputs: the names of one table, file or mapping each. Within one input all files are spelled in one way: ``a b``
            and ``a%20b`` are two files there. None represents itself.

    Raises:
        UsageError: a name of one input is the percent-decoded form of another's, or percent-encoded otherwise than
            another's, or names no account of Azure where another does, and no input has both.

    >>> unite_spellings(["/t/x"], ["file:///t/x", "/t/y"])
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
        _check_accounts(first, keys)
        encoded: dict[str, str] = {}
        for key, name in first.items():
            plain = decoded_key(key)
            if plain is None or plain == key:
                continue
            for other in {plain, encoded.setdefault(plain, key)} - {key}:
                if other in first and not any(key in some and other in some for some in keys):
                    raise undecidable(str(name), str(first[other]))
    log_united([(name, kept) for name, kept in found.items() if name != kept])
    return found


def _check_accounts(first: dict[str, Name], keys: list[set[str]]) -> None:
    """Refuse names of Azure of which one says the account, and another, in another input, does not.

    Raises:
        UsageError: there are such names.
    """
    bare = {key: name for key, name in first.items() if key.startswith("abfs://")}
    for key, name in bare.items():
        container, account, rest = key.partition("@")
        other = f"{container}/{rest.partition('/')[2]}"
        if account and other in bare and not any(key in some and other in some for some in keys):
            raise UsageError(
                f"{name!r} and {bare[other]!r} may be one data file, or two of different storage accounts: spell the "
                "account on both sides"
            )


def log_united(pairs: list[tuple[Name, Name]]) -> None:
    """Log at INFO that names were taken for other spellings of files: (spelling, the one that is kept)."""
    if pairs:
        count = "one data file is" if len(pairs) == 1 else f"{len(pairs)} data files are"
        _LOG.info("%s spelled in two ways, the first is kept: %r for %r", count, pairs[0][1], pairs[0][0])


def path_below(path: str, folder: str) -> str | None:
    """Return a path from a folder on, None if it is not below it; both in plain text.

    What is below keeps its own slashes in object stores, where ``a//b`` can be opened only by that name.

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

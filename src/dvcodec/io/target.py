"""Local paths and URLs: joined and split, whether two name the same file, which of them metadata may reference.

Engines spell the same file differently: ``s3://`` and ``s3a://``, ``file:/x`` and ``/x``, ``a//b`` and ``a/b``. Tables
store plain text; Spark's ``_metadata.file_path`` and Delta's log percent-encode. A name does not show whether it is
encoded, because a file may really be named ``a%20b`` (folders of Hive partitions are), so `file_key` never decodes:
`merge_spellings` resolves this by the other names in a job, other callers by the files that exist.

The writer of a table's metadata chooses what its readers open, with their network access and credentials. So an
absolute path in metadata is opened only in the table's own storage or in an object store, whose host is configured by
the reader and not part of the URL. Web addresses, other hosts, chains of file systems (``zip://a::http://b``) and local
files of a remote table must be allowed by the caller.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeVar, cast
from urllib.parse import quote, unquote

from dvcodec.core.errors import CardinalityMismatch, DecodeError, NotCanonical, Unsupported, UsageError
from dvcodec.core.usage import check_type

_WINDOWS = os.name == "nt"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?:://|::)|file:/", re.IGNORECASE)

_DRIVE = re.compile(r"/[A-Za-z]:(?:/|\Z)")
_URL_AS_PATH = re.compile(r"(?:s3[an]?|gc?s|az|abfss?|wasbs?|https?|hdfs|memory):/(?!/)", re.IGNORECASE)


def is_url(target: object) -> bool:
    """Whether `target` is a str with a scheme: ``s3://bucket/key``, ``file:/path``, ``zip://part::s3://bucket/key``.

    A colon alone does not make a URL: ``part:0.bin`` is a file.
    """
    return isinstance(target, str) and _URL.match(target) is not None


def with_slashes(path: str | os.PathLike[str], *, windows: bool = _WINDOWS) -> str:
    r"""Return a path or URL with ``/`` between its parts: on Windows, paths may have backslashes.

    Elsewhere a backslash is part of a name.

    >>> with_slashes(r"C:\lake\t", windows=True), with_slashes(r"a\b", windows=False)
    ('C:/lake/t', 'a\\b')
    """
    text = os.fspath(path)
    return text.replace("\\", "/") if windows and not is_url(text) else text


def local_path(target: str | os.PathLike[str], *, windows: bool = _WINDOWS) -> Path | None:
    """Return the local path of `target`, None for a remote URL. The file need not exist.

    On Windows, ``file:///C:/t`` is ``C:/t``.

    Raises:
        UsageError: neither a str nor a path, a ``file:`` URL with a host, a URL as a `Path`, or a name that no file can
            have.
    """
    try:
        text = os.fspath(target)
    except TypeError:
        text = None
    if not isinstance(text, str):
        raise UsageError(f"a path or URL must be a str or os.PathLike, not {type(target).__name__}")
    if isinstance(target, str):
        name = local_name(target, windows=windows)
        return None if name is None else Path(name)
    _check_name(text)
    if _URL_AS_PATH.match(text):
        raise UsageError(f"{target}: pass a URL as str: a Path drops one of its slashes")
    return Path(target)


def local_name(target: str, *, windows: bool = _WINDOWS) -> str | None:
    """Return the local path of `target` as text, None for a remote URL: what `local_path` makes a `Path` of.

    Raises:
        UsageError: see `local_path`.
    """
    _check_name(target)
    if not is_url(target):
        return target
    scheme, _, rest = target.partition(":")
    if scheme.lower() != "file" or rest.startswith(":"):
        return None
    host, path = _of_file_url(rest)
    if host.lower() not in ("", "localhost"):
        raise UsageError(f"{target}: a file URL must not name a host")
    return path[1:] if windows and _DRIVE.match(path) else path


def _of_file_url(rest: str) -> tuple[str, str]:
    """Split a ``file:`` URL, without its scheme, into the host, which is usually empty, and the path."""
    if not rest.startswith("//"):
        return "", unquote(rest)
    host, _, path = rest[2:].partition("/")
    return host, unquote(f"/{path}")


def is_local(target: str) -> bool:
    """Whether `local_path` returns a path, not None.

    Raises:
        UsageError: see `local_path`.
    """
    return local_name(target) is not None


def _check_name(text: str) -> None:
    if not can_be_named(text):
        raise UsageError(f"{text!a:.200}: a name with a NUL character or a lone surrogate")


def can_be_named(text: str) -> bool:
    """Whether the system takes this name; names that are not UTF-8 are spelled with surrogates of their own."""
    if text.isascii():
        return "\0" not in text
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def network_host(path: str) -> str | None:
    r"""Return the host of a network path of Windows, also within a ``file:`` URL; None for other paths.

    >>> [network_host(path) for path in (r"\\host\x", "//Host/x", "file:////host/x", "file:/%2Fhost/x")]
    ['host', 'host', 'host', 'host']
    >>> [network_host(path) for path in ("file:///x", "/x", r"C:\x", r"\x")]
    [None, None, None, None]
    """
    scheme, colon, rest = path.partition(":")
    if colon and scheme.lower() == "file":
        path = _of_file_url(rest)[1]
    path = path.replace("\\", "/")
    return path[2:].partition("/")[0].lower() if path.startswith("//") else None


@contextmanager
def errors_name(name: str) -> Iterator[None]:
    """Add the file name to an OSError that has none."""
    try:
        yield
    except OSError as err:
        if err.filename is None:
            err.filename = name
        raise


def join(folder: str, name: str) -> str:
    """Return the path of `name` in a folder, spelled as the folder is; `name` may have slashes.

    The name is percent-encoded in a ``file:`` URL, and only there. Not checked: whether `name` leaves the folder.

    Raises:
        UsageError: a ``file:`` URL with a host.
    """
    inner, chain, outer = folder.partition("::")
    if chain:  # zip://folder::s3://bucket/archive.zip
        return f"{join(inner, name)}::{outer}"
    if is_url(folder) and is_local(folder):
        name = quote(name)
    elif folder.rstrip("/").endswith(":") and is_url(folder):  # the root of zip:// or hdfs:///
        return folder + name
    return f"{folder.rstrip('/')}/{name}"


def split(path: str) -> tuple[str, str]:
    """Return folder and bare name of a file.

    Raises:
        UsageError: a ``file:`` URL with a host.
    """
    local = local_path(path)
    if local is not None:
        path = with_slashes(path)
        spelled = path.rpartition("/")[0] if "/" in path else "."
        return spelled or "/", local.name
    inner, chain, outer = path.partition("::")
    folder, _, name = inner.rpartition("/")
    return f"{folder}{chain}{outer}", name


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


OBJECT_STORES = frozenset(
    {"abfs", "abfss", "az", "cos", "cosn", "gcs", "gs", "obs", "oci", "oss", "s3", "s3a", "s3n", "wasb", "wasbs"}
)
"""Protocols whose URLs name a bucket, not a host to connect to."""
_CHAIN = "::"
_PROTOCOL = re.compile(r"[a-z][a-z0-9+.-]*")
_SHOWN = 200


def protocols(names: Iterable[str]) -> frozenset[str]:
    """Return a set of protocols for `check_reach`, in lower case.

    >>> sorted(protocols(["HTTP", "file"]))
    ['file', 'http']

    Raises:
        UsageError: a name that is not a protocol (``http://host``), or a single str.
    """
    check_type(names, Iterable, "allow", "a collection of protocols")
    found: frozenset[object] = frozenset([names] if isinstance(names, str) else names)
    for name in found:
        if isinstance(names, str) or not isinstance(name, str) or not _PROTOCOL.fullmatch(name.lower()):
            raise UsageError(f"allow: expected protocols such as 'http' or 'file', found {name!r}")
    return frozenset(str(name).lower() for name in found)


def check_reach(path: str, home: str | None, allow: frozenset[str] = frozenset()) -> None:
    """Check that an absolute path in metadata may be opened.

    Args:
        path: as it will be opened.
        home: path or URL of the metadata; None if unknown, which counts as local.
        allow: further `protocols`: ``http``, ``sftp``; ``file`` for local files of a remote table; for a chain, every
            protocol in it.

    Raises:
        Unsupported: metadata must not reference this location.
        NotCanonical: not a location: a ``file:`` URL of another host.
    """
    try:
        local = is_local(path)
        at_home = home is None or is_local(home)
    except UsageError as err:
        raise NotCanonical("path", source=home, expected="a path", actual=f"{err!s:.{_SHOWN}}") from None
    host = network_host(path)
    if host is not None:  # Windows would connect to it, and log in
        reached = home is not None and host == network_host(home)
    elif local:
        reached = at_home or "file" in allow
    elif _CHAIN in path:
        known = OBJECT_STORES | allow
        reached = all(_scheme(part) in known for part in path.split(_CHAIN))
    else:
        reached = _scheme(path) in OBJECT_STORES | allow or (home is not None and _host(path) == _host(home))
    if not reached:
        raise Unsupported(
            "path in metadata",
            source=home,
            expected="one in the table's own storage or in an object store (others must be allowed by protocol)",
            actual=f"{path!r:.{_SHOWN}}",
        )


def check_step(name: str, home: str) -> None:
    """Check that a relative name is one that a file can have, and does not lead to another file system.

    ``a::http://host/x`` would, where chains of file systems are known.

    Raises:
        NotCanonical: it is not, or it does.
        UsageError: `home` is a ``file:`` URL with a host.
    """
    if not can_be_named(name):
        expected = "no NUL character and no lone surrogate"
        raise NotCanonical("path", source=home, expected=expected, actual=f"{name!a:.{_SHOWN}}")
    if network_host(name) is not None:
        raise NotCanonical("path", source=home, expected="no network path", actual=f"{name!r:.{_SHOWN}}")
    if _CHAIN in name and not is_local(home):
        raise NotCanonical("path", source=home, expected="no '::' below a URL", actual=f"{name!r:.{_SHOWN}}")


def _scheme(url: str) -> str:
    """Return the protocol of one part of a chain; a part may be only a protocol (``simplecache``)."""
    return url.partition("://")[0].lower()


def _host(url: str) -> str | None:
    """Return protocol and host, verbatim; None for a chain or a path."""
    if not is_url(url) or _CHAIN in url:
        return None
    scheme, _, rest = url.partition("://")
    return f"{scheme.lower()}://{rest.partition('/')[0]}"


HIDDEN = "something else (values are not shown: the file is outside the table's folder)"
"""The value found, in an error about a file outside the table's folder."""


def is_outside(location: str, folder: str) -> bool:
    """Whether a file is outside a folder, after symbolic links of local paths are resolved.

    >>> is_outside("s3://lake/t/a", "s3://lake/t"), is_outside("s3://lake/t2/a", "s3://lake/t")
    (False, True)
    """
    try:
        file, home = local_path(location), local_path(folder)
    except UsageError:
        return True
    if file is None or home is None:
        return path_below(location, folder) is None
    real, root = os.path.realpath(file), os.path.realpath(home)
    return not real.startswith(root if root.endswith(os.sep) else root + os.sep)


class hide_values:  # noqa: N801  (used like a function; a class for the reason of `enough_memory`)
    """Remove the values from errors in the block, if the file is outside the folder.

    The number of rows in a valid vector or data file is kept: no other file has one.

    Args:
        location: path or URL of the file that the block reads.
        folder: path or URL of the table's folder; None if there is no table.

    The error is changed in place: a table may have 100,000 vectors outside its folder, each with an error.
    """

    __slots__ = ("_folder", "_location")

    def __init__(self, location: str, folder: str | None) -> None:
        self._location, self._folder = location, folder

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Remove the values from the error, which goes on."""
        if not isinstance(error, DecodeError) or isinstance(error, CardinalityMismatch) or error.actual is HIDDEN:
            return
        if self._folder is not None and _is_outside(self._location, self._folder):
            error.hide(HIDDEN)


_KNOWN: ContextVar[dict[tuple[str, str], bool] | None] = ContextVar("files known to be outside or not", default=None)


@contextmanager
def ask_once() -> Iterator[None]:
    """Resolve the links of a file once within the block, in which it stays open: that takes longer than most reads."""
    token = _KNOWN.set({})
    try:
        yield
    finally:
        _KNOWN.reset(token)


def _is_outside(location: str, folder: str) -> bool:
    known = _KNOWN.get()
    if known is None:
        return is_outside(location, folder)
    key = location, folder
    found = known.get(key)
    if found is None:
        found = known[key] = is_outside(location, folder)
    return found

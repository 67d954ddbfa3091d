"""Spellings of data files, in tables and in Spark.

A vector names its data file as the table does, in plain text: ``s3://lake/t/day=1/a b.parquet``. Spark's
``_metadata.file_path`` is a URI: ``file:/`` for local files, and some characters percent-encoded. A table's path must
not be percent-decoded (a file may be named ``a%20b``), Spark's must be::

    table                        Spark, _metadata.file_path        key
    /wh/t/a b.parquet            file:/wh/t/a%20b.parquet          /wh/t/a b.parquet
    file:///wh/t/a%20b.parquet   file:/wh/t/a%2520b.parquet        /wh/t/a%20b.parquet
    s3://lake/t/é+#.parquet      s3a://lake/t/é+%23.parquet        s3://lake/t/é+#.parquet

Each function has a counterpart over columns, built from Spark's own expressions.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from pyspark.sql import Column
from pyspark.sql import functions as sf

from dvcodec.io.target import LOCAL, ON_DRIVE, ROOTED, ROOTED_SCHEMES, SAME_SCHEMES, file_key

__all__ = [
    "data_file_column",
    "data_file_of",
    "decoded_key_column",
    "file_path_of",
    "file_uri_column",
    "file_uri_of",
    "match_key",
    "match_key_column",
    "spellings",
    "twin_column",
]

_ENCODED = r'[\x00-\x20"#%<>?\[\\\]^`{|}\x7f-\xa0' + r"\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
"""What ``java.net.URI`` quotes in a path: controls, spaces of any script, and these. For `re` and for Java."""
_SCHEME = r"^[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?"
_URL = r"^([A-Za-z][A-Za-z0-9+.-]*)://"
_HEAD = rf"(?:^(?i:https?)://[^/]*|{_URL}|{ROOTED})"
"""The case-insensitive start of a location: its scheme, and the host of a web address."""
_SLASHES = "/{2,}"
_NOT_ENCODED = "%(?![0-9A-Fa-f]{2})"
"""A percent sign that encodes nothing."""
_GONE = ("s3n", "az", "azure", "adl", "gcs")
"""Schemes that Spark does not read, or no longer reads, but that tables and other engines use."""
_SAME = {f"{other}://": f"{known}://" for known, others in SAME_SCHEMES.items() for other in others}
_HEADS = [text for pair in (_SAME | {f"{name}:/": f"{name}:///" for name in ROOTED_SCHEMES}).items() for text in pair]
"""Pairs of a head of a location and the spelling that replaces it."""
_DECODINGS = 3
"""Levels of percent-encoding that `twin_column` decodes."""


def data_file_of(uri: str) -> str:
    """Return Spark's ``_metadata.file_path`` as plain text: percent-decoded, ``file:/`` if local.

    >>> data_file_of("s3a://lake/t/a%20b+%25.parquet"), data_file_of("file:///wh/x.parquet")
    ('s3a://lake/t/a b+%.parquet', 'file:/wh/x.parquet')
    """
    return file_path_of(unquote(uri))


def file_path_of(uri: str) -> str:
    """Return a name of ``df.inputFiles()`` as ``_metadata.file_path`` spells it: local files have one slash.

    >>> file_path_of("file:///wh/a%20b"), file_path_of("s3a://lake/a%20b")
    ('file:/wh/a%20b', 's3a://lake/a%20b')
    """
    return re.sub(r"^file:/{3,}", "file:/", uri)


def data_file_column(uri: Column) -> Column:
    """`data_file_of` for a column."""
    # Most names need neither the decoding nor the regular expression, which cost 490 ns a row.
    known = sf.regexp_replace(_url_decoded(uri), r"^file:/{3,}", "file:/")
    return sf.when(uri.startswith("file:///") | uri.contains("%"), known).otherwise(uri)


def _url_decoded(path: Column) -> Column:
    return sf.url_decode(sf.replace(path, sf.lit("+"), sf.lit("%2B")))  # it decodes + as a space


def file_uri_of(path: str) -> str:
    """Return a path in plain text as Spark's ``_metadata.file_path`` spells it; the scheme is kept.

    An absolute path is a local file's. A relative path is only encoded.

    >>> file_uri_of("/wh/a b+é.parquet"), file_uri_of("s3://lake/a%20b.parquet")
    ('file:/wh/a%20b+é.parquet', 's3://lake/a%2520b.parquet')
    """
    if re.match(LOCAL, path):
        return "file:" + _encode(re.sub(_SLASHES, "/", re.sub(LOCAL, "/", path)))
    head = re.match(_SCHEME, path)
    end = head.end() if head else 0
    return path[:end] + _encode(path[end:])


def _encode(path: str) -> str:
    return re.sub(_ENCODED, lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), path)


def file_uri_column(path: Column) -> Column:
    """`file_uri_of` for a column."""
    local = sf.regexp_replace(sf.regexp_replace(path, LOCAL, "/"), _SLASHES, "/")
    head = sf.regexp_extract(path, _SCHEME, 0)
    encoded = sf.concat(head, _encode_column(sf.substr(path, sf.length(head) + 1)))
    return sf.when(path.rlike(LOCAL), sf.concat(sf.lit("file:"), _encode_column(local))).otherwise(encoded)


def _encode_column(path: Column) -> Column:
    def encode(letter: Column) -> Column:
        code = sf.regexp_replace(sf.hex(sf.encode(letter, "UTF-8")), "(..)", "%$1")
        return sf.when(letter.rlike(_ENCODED), code).otherwise(letter)

    letters = sf.regexp_extract_all(path, sf.lit("(?s)."), sf.lit(0))
    return sf.when(path.rlike(_ENCODED), sf.array_join(sf.transform(letters, encode), "")).otherwise(path)


def match_key(path: str, *, uri: bool = False) -> str:
    """Return the form in which all spellings of one data file are equal: see `dvcodec.io.target.file_key`.

    Args:
        path: a data file.
        uri: True for Spark's spelling (``_metadata.file_path``, ``inputFiles``); False for plain text.

    >>> match_key("s3a://lake/a%20b", uri=True) == match_key("s3://lake/a b") == "s3://lake/a b"
    True
    """
    return file_key(data_file_of(path) if uri else path)


def match_key_column(path: Column, *, uri: bool = False) -> Column:
    """`match_key` for a column."""
    path = data_file_column(path) if uri else path
    # Most names need no regular expression, which costs more than shuffling a row.
    tidy = ~path.endswith("/")
    key = sf.when(path.startswith("/") & ~path.contains("//") & tidy, path)
    key = key.when(path.startswith("file:/") & ~path.contains("//") & tidy, sf.substr(path, sf.lit(6)))
    key = key.when(path.startswith("s3://") & ~sf.substr(path, sf.lit(6)).contains("//") & tidy, path)
    alias = sf.concat(sf.lit("s3"), sf.substr(path, sf.lit(4)))
    key = key.when(path.startswith("s3a://") & ~sf.substr(path, sf.lit(7)).contains("//") & tidy, alias)
    return key.otherwise(_any_key(path))


def _any_key(path: Column) -> Column:
    # Few and short expressions: Java compiles no method larger than 64 KiB, and a join contains this several times.
    local = sf.concat(sf.lit("/"), _tidy(sf.regexp_replace(path, LOCAL, "")))
    head = sf.lower(sf.regexp_extract(path, _HEAD, 0))
    known = sf.coalesce(sf.try_element_at(sf.create_map(*map(sf.lit, _HEADS)), head), head)
    whole = sf.regexp_replace(path, _HEAD, "")
    rest = sf.when(whole.rlike(r"^/+\z") & head.endswith("://"), sf.lit("/")).otherwise(_tidy(whole))
    below = _tidy(sf.translate(sf.substr(path, sf.lit(2)), "\\", "/"))
    drive = sf.concat(sf.lit("/"), sf.upper(sf.substr(path, sf.lit(1), sf.lit(1))), below)
    return sf.when(path.rlike(LOCAL), local).when(path.rlike(ON_DRIVE), drive).otherwise(sf.concat(known, rest))


def _tidy(path: Column) -> Column:
    return sf.regexp_replace(sf.regexp_replace(path, _SLASHES, "/"), r"/\z", "")


def decoded_key_column(path: Column) -> Column:
    """`dvcodec.io.target.decoded_key` for a column, but null only if nothing is encoded."""
    return sf.when(path.contains("%"), match_key_column(_decoded(path)))


def _decoded(path: Column) -> Column:
    """Percent-decode; other text is returned unchanged."""
    return sf.when(path.rlike(_NOT_ENCODED), path).otherwise(_url_decoded(path))


def twin_column(key: Column) -> Column:
    """Return a form that a key and its percent-encoded spellings share, for a column of `match_key_column`."""

    def decoded(path: Column) -> Column:
        # A lambda is the only way to name a value that an expression uses twice.
        return sf.transform(sf.array(path), _decoded)[0]

    plain = key
    for _ in range(_DECODINGS):
        plain = decoded(plain)
    return sf.when(key.contains("%"), match_key_column(plain)).otherwise(key)


def spellings(path: str) -> list[str]:
    """Return every way in which ``_metadata.file_path`` may spell a path in plain text: one for each such scheme.

    >>> spellings("/wh/a b"), spellings("s3n://lake/a")
    (['file:/wh/a%20b'], ['s3://lake/a', 's3a://lake/a'])
    """
    uri = file_uri_of(match_key(path))
    scheme, colon, rest = uri.partition("://")
    others = [other for other in SAME_SCHEMES.get(scheme, ()) if other not in _GONE] if colon else []
    return [uri, *(f"{other}://{rest}" for other in others)]

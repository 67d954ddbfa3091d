"""Data files that deletes name with another scheme than manifests do.

The specification requires ``file_path`` of a position delete to equal the data file's path in the manifest, and Iceberg
Java and pyiceberg compare text: to them, a delete for ``hdfs://host/t/a`` does not apply to ``/t/a``. Engines that
qualify paths by file system write such tables and read them as intended. Here the delete applies, because a deleted row
that comes back is the worse fault, and the audit reports an error, because engines disagree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dvcodec.io.file_key import file_key

__all__ = ["Spellings"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*(?=/)|(?=/))")


class Spellings:
    """The data files of a snapshot, by path without scheme and authority.

    >>> files = Spellings(["/t/a", "s3://lake/t/b"])
    >>> files.find("hdfs://host:8020/t/a"), files.find("s3a://lake/t/b"), files.find("s3://other/t/b")
    ('/t/a', 's3://lake/t/b', None)
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = paths
        self._known: dict[str, list[str]] = {}

    def find(self, path: str) -> str | None:
        """Return the one data file that `path` names with another scheme; None if none or several match.

        One of the two has no scheme, or both are the same to `file_key`.
        """
        if not self._known:
            for known in self._paths:
                self._known.setdefault(_bare(known), []).append(known)
        found = self._known.get(_bare(path), [])
        if len(found) != 1:
            return None
        alike = file_key(path) == file_key(found[0])
        return found[0] if alike or _is_bare(path) or _is_bare(found[0]) else None


def _bare(path: str) -> str:
    head = _SCHEME.match(path)  # a search would begin at every character of a long name
    rest = path[head.end() :] if head else path
    return "/" + rest.lstrip("/") if rest.startswith("//") else rest


def _is_bare(path: str) -> bool:
    return path.startswith("/")

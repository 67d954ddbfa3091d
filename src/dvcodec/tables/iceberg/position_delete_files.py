"""What a table's properties say of new files of position deletes (`dvcodec.iceberg`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence

from dvcodec.core.errors import Unsupported, UsageError
from dvcodec.core.rowset import RowSet
from dvcodec.tables.model import FileDelete

_FORMAT = ("write.delete.format.default", "write.format.default")
_GRANULARITY = "write.delete.granularity"
_COMPRESSION = ("write.delete.parquet.compression-codec", "write.parquet.compression-codec")
_CODECS = {"uncompressed": "none", "snappy": "snappy", "gzip": "gzip", "brotli": "brotli", "zstd": "zstd", "lz4": "lz4"}


def compression_of(properties: Mapping[str, str], source: str) -> str:
    """Return the codec that a table's properties set for Parquet files of deletes.

    Args:
        properties: of the table.
        source: its metadata file, for errors.

    Raises:
        Unsupported: its deletes are to be written in another format than Parquet, or an unknown codec.
    """
    name = next((name for name in _FORMAT if name in properties), _FORMAT[0])
    if properties.get(name, "parquet").lower() != "parquet":
        expected = "parquet, for position deletes"
        raise Unsupported(f"property {name}", source=source, expected=expected, actual=properties[name])
    codec = next((properties[name] for name in _COMPRESSION if name in properties), "zstd").lower()
    if codec not in _CODECS:
        raise Unsupported("compression of Parquet", source=source, expected=", ".join(_CODECS), actual=codec)
    return _CODECS[codec]


def new_rows(deletes: Sequence[FileDelete], properties: Mapping[str, str], source: str) -> list[dict[str, RowSet]]:
    """Return the rows of each file to write; rows that are deleted already are not deleted again.

    There is a file for each data file, or for each partition, as the property ``write.delete.granularity`` says.

    Args:
        deletes: one for each data file.
        properties: of the table.
        source: its metadata file, for errors.

    Raises:
        UsageError: the property has another value.
    """
    granularity = properties.get(_GRANULARITY, "file").lower()
    if granularity not in ("file", "partition"):
        raise UsageError(f"{source}: property {_GRANULARITY} is {granularity}: expected file or partition")
    files: dict[Hashable, dict[str, RowSet]] = defaultdict(dict)
    for one in deletes:
        path = one.data_file.path
        files[path if granularity == "file" else one.data_file.partition_key][path] = one.rows - one.before
    return list(files.values())

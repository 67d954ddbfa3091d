"""Locations of a table's data files and index files, and the paths that identify them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from dvcodec.core.errors import NotCanonical
from dvcodec.io import is_url
from dvcodec.io.target import split
from dvcodec.paimon import IndexManifestEntry
from dvcodec.tables.folder import Folder
from dvcodec.tables.json_fields import bare_name
from dvcodec.tables.model import DataFile
from dvcodec.tables.paimon.manifests import ManifestEntry
from dvcodec.tables.paimon.metadata import TableSchema
from dvcodec.tables.paimon.partition import Partition, PartitionSpec

__all__ = ["Layout"]

INDEX = "index"
"""Folder of index files, unless they are beside the data files."""


class Layout:
    """Paths of a table's files, as a schema's options lay them out.

    Paths are relative to the table's folder, except absolute ones in the metadata (``_EXTERNAL_PATH``).
    """

    def __init__(self, folder: Folder, schema: TableSchema) -> None:
        """Take the options.

        Raises:
            DecodeError: see `PartitionSpec`.
        """
        self._folder = folder
        self._index_beside_data = schema.is_true("index-file-in-data-file-dir")
        self.spec = PartitionSpec(schema, folder.join(schema.name))

    @property
    def key(self) -> Hashable:
        """Equal for layouts that give every file the same path."""
        return self._index_beside_data, self.spec.key

    def data_folder(self, partition: bytes, bucket: int, source: str) -> tuple[Partition, str]:
        """Return a partition, and the folder of one of its buckets.

        Raises:
            DecodeError: the partition is corrupt.
        """
        decoded = self.spec.decode(partition, source=source)
        return decoded, self.spec.bucket_folder(decoded, bucket)

    def data_file(self, entry: ManifestEntry) -> DataFile:
        """Return a data file as a value of the model.

        Raises:
            DecodeError: its partition or path is corrupt.
        """
        file = entry.file
        partition, folder = self.data_folder(file.partition, file.bucket, entry.manifest)
        path = external_path(file.external_path, entry.manifest) or f"{folder}/{file.file_name}"
        return DataFile(
            path,
            self._folder.locate(path),
            file.row_count,
            file.file_size,
            partition.text,
            partition.typed,
            file.partition,
            bucket=file.bucket,
            record=file,
        )

    def files(self, entry: ManifestEntry) -> Iterator[str]:
        """Yield the paths of a data file and of its extra files.

        Raises:
            DecodeError: its partition or path is corrupt.
        """
        folder = self.data_folder(entry.file.partition, entry.file.bucket, entry.manifest)[1]
        path = external_path(entry.file.external_path, entry.manifest) or f"{folder}/{entry.file.file_name}"
        yield path
        for extra in entry.file.extra_files:
            yield f"{split(path)[0]}/{extra}"

    def index_file(self, entry: IndexManifestEntry, source: str) -> str:
        """Return the path of an index file.

        Args:
            entry: an entry of the index manifest.
            source: the index manifest, for errors.

        Raises:
            DecodeError: its partition or path is corrupt.
        """
        path = external_path(entry.external_path, source)
        if path is not None:
            return path
        name = bare_name(entry.file_name, "_FILE_NAME", source)
        folder = self.index_folder(entry.partition, entry.bucket, source) if entry.global_index is None else INDEX
        return f"{folder}/{name}"

    def index_folder(self, partition: bytes, bucket: int, source: str) -> str:
        """Return the folder of a bucket's index files.

        Raises:
            DecodeError: the partition is corrupt.
        """
        return self.data_folder(partition, bucket, source)[1] if self._index_beside_data else INDEX


def external_path(path: str | None, source: str) -> str | None:
    """Return an absolute path from the metadata.

    Raises:
        NotCanonical: it is relative, or leads out of the folder that it names.
    """
    if path is not None and (not (is_url(path) or path.startswith("/")) or ".." in path.split("/") or "\0" in path):
        raise NotCanonical("_EXTERNAL_PATH", source=source, expected="an absolute path", actual=f"{path!r:.80}")
    return path

"""Manifests among the targets of inspect and verify: Paimon's index manifests and Lance's manifests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from dvcodec import lance, paimon
from dvcodec.cli.render import Table, say
from dvcodec.cli.storage import storage
from dvcodec.cli.targets import Target
from dvcodec.core.errors import DecodeError, UsageError
from dvcodec.core.report import Check, Report
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import NOTHING, bytes_text, counted, number
from dvcodec.io import is_url, open_source, read_within
from dvcodec.io.store import StoreError
from dvcodec.tables.folder import Folder


def read_manifest(target: Target) -> PaimonManifest | LanceManifest | None:
    """Read a manifest that was named itself; None for other targets, and for the files of a folder.

    Raises:
        DecodeError: it is corrupt.
        OSError: it cannot be read.
    """
    if target.found or target.offset is not None:
        return None
    name = target.path.replace("\\", "/").rpartition("/")[2]
    if name.startswith("index-manifest-"):
        return PaimonManifest(target.path)
    return LanceManifest(target.path) if name.endswith(".manifest") else None


class PaimonManifest:
    """An index manifest: the index files of a snapshot, and the vectors in them.

    Args:
        path: file or URL.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.entries = paimon.read_index_manifest(path, storage_options=storage())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"source": self.path, "kind": "paimon-index-manifest", "entries": list(map(_entry_json, self.entries))}

    def show(self) -> None:
        """Print the index files, and the vectors in them."""
        say((self.path, "bold"), f"  Paimon index manifest, {counted(len(self.entries), 'index file')}")
        shown = Table("index file", "type", "size", "rows", "bucket", "partition", right=("size", "rows", "bucket"))
        for entry in self.entries:
            partition = NOTHING if entry.partition == paimon.EMPTY_PARTITION else entry.partition.hex()
            name = entry.external_path or entry.file_name
            kind = entry.index_type if entry.kind == "ADD" else f"{entry.index_type} ({entry.kind})"
            shown.add(name, kind, bytes_text(entry.file_size), number(entry.row_count), number(entry.bucket), partition)
        shown.show()
        print()
        shown = Table("data file", "index file", "offset", "length", "rows", right=("offset", "length", "rows"))
        for entry in self.entries:
            for meta in entry.vectors or ():
                numbers = (number(meta.offset), number(meta.length), number(meta.cardinality))
                shown.add(meta.data_file, entry.file_name, *numbers)
        shown.show()

    def verify(self) -> Report:
        """Check the index files: vectors against offset, length, CRC and cardinality, hash indexes against their count.

        Raises:
            UsageError: the manifest is not in a table's folder.
        """
        root = _root(self.path, "manifest")
        checks = tuple(check for entry in self.entries for check in check_entry(entry, root))
        return Report(self.path, "paimon-index-manifest", checks)


def _entry_json(entry: paimon.IndexManifestEntry) -> dict[str, Any]:
    vectors = None if entry.vectors is None else list(map(_members, entry.vectors))
    return _members(entry) | {"vectors": vectors}


def _members(value: paimon.IndexManifestEntry | paimon.DeletionVectorMeta) -> dict[str, Any]:
    """Return the fields of a value; ``asdict`` copies what is in them, too, which takes ten times as long."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def check_entry(entry: paimon.IndexManifestEntry, root: str) -> Iterator[Check]:
    """Check an index file of the table at `root` against the manifest."""
    try:
        folder = Folder(root, storage=storage())
        location = folder.locate(entry.path(root))
        if entry.index_type == paimon.HASH:
            with open_source(location, storage_options=folder.storage) as source:
                data = read_within(source, "max_metadata_bytes").view
                paimon.decode_hash_index(data, row_count=entry.row_count, source=entry.file_name)
            yield Check.passed("index-file", entry.file_name)
        if entry.vectors:
            with folder.storage.hold(location):
                for meta in entry.vectors:
                    subject = f"{entry.file_name}: vector of {meta.data_file}"
                    try:
                        paimon.load(meta, location, storage_options=folder.storage)
                        yield Check.passed("vector", subject, meta.offset)
                    except DecodeError as err:
                        yield Check.from_error("vector", subject, err)
    except (DecodeError, OSError) as err:
        yield _failed("index-file", entry.file_name, err)
    if entry.vectors is not None and entry.row_count != len(entry.vectors):
        expected = f"{len(entry.vectors)} (vectors)"
        yield Check.failed("row-count", entry.file_name, None, "_ROW_COUNT", expected, entry.row_count)


def _root(path: str, folder: str) -> str:
    """Return the table's folder, two levels above the manifest."""
    parts = path.replace("\\", "/").rsplit("/", 2) if is_url(path) else Path(path).absolute().parts
    if len(parts) < 3 or parts[-2] != folder:
        raise UsageError(f"{path}: expected a manifest in a folder {folder!r}, to locate the files that it references")
    return str(parts[0]) if is_url(path) else str(Path(*parts[:-2]))


def _failed(name: str, subject: str, err: DecodeError | OSError) -> Check:
    if isinstance(err, DecodeError):
        return Check.from_error(name, subject, err)
    words = str(err) if isinstance(err, StoreError) else str(err.strerror or err)
    return Check.failed(name, subject, None, words, "a file that can be read", "none")


class LanceManifest:
    """A version of a Lance dataset: its fragments, their deletion files and row ids.

    Args:
        path: file or URL.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.manifest = lance.read_manifest(path, storage_options=storage())

    @cached_property
    def row_ids(self) -> list[lance.RowIdSequence | DecodeError | None]:
        """The row ids of each fragment, or why they cannot be read."""
        return list(map(_row_ids, self.manifest.fragments))

    @property
    def fragments(self) -> list[dict[str, Any]]:
        """Each fragment as plain values."""
        return list(map(_fragment, self.manifest.fragments, self.row_ids))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "source": self.path,
            "kind": "lance-manifest",
            "version": self.manifest.version,
            "next_row_id": self.manifest.next_row_id,
            "stable_row_ids": self.manifest.has_stable_row_ids,
            "reader_flags": self.manifest.reader_flags,
            "writer_flags": self.manifest.writer_flags,
            "writer": self.manifest.writer,
            "fragments": self.fragments,
        }

    def show(self) -> None:
        """Print the fragments."""
        found = self.manifest
        ids = f"stable row ids, next {found.next_row_id:,}" if found.has_stable_row_ids else "no stable row ids"
        about = f"version {found.version}, {counted(len(found.fragments), 'fragment')}, {ids}"
        say((self.path, "bold"), f"  Lance manifest, {about}" + (f", by {found.writer}" if found.writer else ""))
        columns = ("fragment", "rows", "deleted", "deletion file", "row ids", "as", "bytes")
        shown = Table(*columns, right=("fragment", "rows", "deleted", "bytes"))
        for item in self.fragments:
            file = item["deletion_file"]
            ids = item["row_ids"]
            shown.add(
                number(item["id"]),
                number(item["physical_rows"]),
                NOTHING if file is None else number(file["num_deleted_rows"] or None),
                NOTHING if file is None else file["path"],
                NOTHING if ids is None else ids.get("error") or f"{number(ids['first'])} .. {number(ids['last'])}",
                NOTHING if ids is None else ", ".join(ids.get("segments", ())) or NOTHING,
                NOTHING if ids is None else number(ids.get("size")),
            )
        shown.show()
        print()

    def verify(self) -> Report:
        """Check deletion files against their counts, and row ids of live rows against those of all other fragments.

        Raises:
            UsageError: the manifest is not in a dataset's folder.
        """
        root = _root(self.path, "_versions")
        checks: list[Check] = []
        parts = []
        named: set[tuple[int | None, str]] = set()
        for fragment, ids in zip(self.manifest.fragments, self.row_ids, strict=True):
            deleted = RowSet()
            subject = f"fragment {fragment.id}"
            file = fragment.deletion_file
            place = None if file is None else (file.base_id, file.path(""))
            if place in named:  # and it was read
                what, actual = "deletion file", f"that of another fragment: {place[1]}"
                checks.append(Check.failed("deletion-file", subject, None, what, "one of its own", actual))
            else:
                named |= set() if place is None else {place}
                try:
                    deleted = fragment.deleted_rows(root, storage_options=storage().of_table(root))
                    checks.append(Check.passed("deletion-file", subject))
                except (DecodeError, OSError) as err:
                    checks.append(_failed("deletion-file", subject, err))
            if isinstance(ids, DecodeError):
                checks.append(Check.from_error("sequence", subject, ids))
            elif ids is not None:
                parts.append(lance.FragmentIds(fragment.id, ids, deleted, fragment.physical_rows or None))
            try:
                if fragment.created_at is not None:
                    fragment.created_at_versions()
                if fragment.last_updated_at is not None:
                    fragment.last_updated_at_versions()
            except DecodeError as err:
                checks.append(Check.from_error("sequence", subject, err))
        report = lance.check_row_ids(parts, next_row_id=self.manifest.next_row_id if parts else None)
        return Report(self.path, "lance-manifest", (*checks, *report.checks))


def _row_ids(fragment: lance.Fragment) -> lance.RowIdSequence | DecodeError | None:
    try:
        return None if fragment.row_ids is None else fragment.row_id_sequence()
    except DecodeError as err:
        return err


def _fragment(fragment: lance.Fragment, row_ids: lance.RowIdSequence | DecodeError | None) -> dict[str, Any]:
    file = fragment.deletion_file
    ids: dict[str, Any] | None = None
    if isinstance(row_ids, DecodeError):
        ids = {"error": str(row_ids)}
    elif row_ids is not None:
        count = row_ids.count
        ids = {
            "count": count,
            "first": row_ids.get(0),
            "last": row_ids.get(count - 1),
            "segments": [type(segment).__name__.removesuffix("Segment") for segment in row_ids.segments],
            "size": len(lance.encode_row_ids(row_ids)),
        }
    return {
        "id": fragment.id,
        "physical_rows": fragment.physical_rows,
        "row_ids": ids,
        "deletion_file": None if file is None else asdict(file) | {"path": file.path("").lstrip("/")},
    }

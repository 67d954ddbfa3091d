"""The command manifest: Paimon's index manifests and Lance's manifests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from dvcodec import lance, paimon
from dvcodec.cli.json_text import print_json
from dvcodec.cli.render import NOTHING, Table, bytes_text, counted, number, say
from dvcodec.cli.shared import Json, check_text
from dvcodec.cli.storage import storage
from dvcodec.cli.targets import check_name
from dvcodec.core.errors import DecodeError, Unsupported, UsageError
from dvcodec.core.report import Check
from dvcodec.core.rowset import RowSet
from dvcodec.io import is_url, list_names, open_source, read_within
from dvcodec.io.store import StoreError
from dvcodec.lance.manifest import MAGIC as LANCE_MAGIC
from dvcodec.paimon.records import MAGICS
from dvcodec.tables.folder import Folder
from dvcodec.tables.model import DeletionVector

_TARGET = "Paimon index manifest, Lance manifest, or a Lance dataset (its latest version)."


def manifest(
    target: Annotated[str, typer.Argument(metavar="TARGET", help=_TARGET)],
    version: Annotated[int | None, typer.Option("--version", min=1, help="Version of a Lance dataset.")] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Read the referenced files: check vectors against their metadata, and row ids for duplicates.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the deletion vectors and row ids that a Paimon index manifest or a Lance manifest records.

    With --check, exit code 1 if a referenced file is corrupt.
    """
    check_name(target)
    if version is not None or _is_dataset(target):
        target = lance.find_manifest(target, version, storage_options=storage())
    show = _paimon if _is_paimon(target) else _lance
    raise typer.Exit(1 if show(target, check, as_json) else 0)


def _is_dataset(target: str) -> bool:
    if not is_url(target):
        return Path(target, "_versions").is_dir()
    try:
        return bool(list_names(f"{target.rstrip('/')}/_versions", storage_options=storage()))
    except OSError:  # no such folder: the target is a manifest
        return False


def _is_paimon(path: str) -> bool:
    """Whether a manifest is Paimon's: its formats begin with their magic, Lance's manifests end with theirs."""
    with open_source(path, storage_options=storage()) as source:
        head = bytes(source.read(0, min(source.size, 4)))
        tail = bytes(source.read(max(source.size - 4, 0), min(source.size, 4)))
    found = head.startswith(MAGICS)
    if not found and tail != LANCE_MAGIC:
        kinds = "Paimon's index manifest (Avro, ORC or Parquet) or Lance's manifest"
        raise Unsupported("manifest", source=path, offset=0, expected=kinds, actual=head.hex(" ") or "no bytes")
    return found


def _root(path: str, folder: str) -> str:
    """Return the table's folder, two levels above the manifest."""
    parts = str(path).replace("\\", "/").rsplit("/", 2) if is_url(path) else Path(path).absolute().parts
    if len(parts) < 3 or parts[-2] != folder:
        raise UsageError(f"{path}: expected a manifest in a folder {folder!r}, to locate the files that it references")
    return str(parts[0]) if is_url(path) else str(Path(*parts[:-2]))


def _paimon(path: str, check: bool, as_json: bool) -> list[Check]:
    entries = paimon.read_index_manifest(path, storage_options=storage())
    findings: list[Check] = []
    if check:
        root = _root(path, "manifest")
        findings = [found for entry in entries for found in _check_entry(entry, root)]
    if as_json:
        items = map(_entry_json, entries)
        print_json({"source": path, "kind": "paimon", "entries": items} | _findings_json(findings, check))
        return findings
    say((path, "bold"), f"  Paimon index manifest, {counted(len(entries), 'index file')}")
    shown = Table("index file", "type", "size", "rows", "bucket", "partition", right=("size", "rows", "bucket"))
    for entry in entries:
        partition = NOTHING if entry.partition == paimon.EMPTY_PARTITION else entry.partition.hex()
        name = entry.external_path or entry.file_name
        kind = entry.index_type if entry.kind == "ADD" else f"{entry.index_type} ({entry.kind})"
        shown.add(name, kind, bytes_text(entry.file_size), number(entry.row_count), number(entry.bucket), partition)
    shown.show()
    vectors = [(entry, meta) for entry in entries for meta in entry.vectors or ()]
    if vectors:
        print()
        shown = Table("data file", "index file", "offset", "length", "rows", right=("offset", "length", "rows"))
        for entry, meta in vectors:
            shown.add(
                meta.data_file, entry.file_name, number(meta.offset), number(meta.length), number(meta.cardinality)
            )
        shown.show()
    _show_findings(findings, check, f"{counted(len(entries), 'index file')}, {counted(len(vectors), 'vector')}")
    return findings


def _entry_json(entry: paimon.IndexManifestEntry) -> dict[str, Any]:
    vectors = None if entry.vectors is None else list(map(_members, entry.vectors))
    return _members(entry) | {"vectors": vectors}


def _members(value: paimon.IndexManifestEntry | paimon.DeletionVectorMeta) -> dict[str, Any]:
    """Return the fields of a value; ``asdict`` copies what is in them, too, which takes ten times as long."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _places(entry: paimon.IndexManifestEntry) -> Iterator[DeletionVector]:
    """Yield what is read of an index file: its vectors, or all of it."""
    name = entry.external_path or entry.file_name
    if entry.vectors is None:
        yield DeletionVector(entry.index_type, None, name, name, None, entry.file_size)
    for meta in entry.vectors or ():
        yield DeletionVector(entry.index_type, None, name, name, meta.offset, meta.length)


def _check_entry(entry: paimon.IndexManifestEntry, root: str) -> list[Check]:
    found = []
    try:
        folder = Folder(root, storage=storage())
        location = folder.locate(entry.path(root))
        if entry.index_type == paimon.HASH:
            with open_source(location, storage_options=folder.storage) as source:
                data = read_within(source, "max_metadata_bytes").view
                paimon.decode_hash_index(data, row_count=entry.row_count, source=entry.file_name)
        if entry.vectors:
            with folder.storage.hold(location):
                for meta in entry.vectors:
                    try:
                        paimon.load(meta, location, storage_options=folder.storage)
                    except DecodeError as err:
                        found.append(Check.from_error("vector", f"{entry.file_name}: vector of {meta.data_file}", err))
    except (DecodeError, OSError) as err:
        found.append(_failed("index-file", entry.file_name, err))
    if entry.vectors is not None and entry.row_count != len(entry.vectors):
        expected = f"{len(entry.vectors)} (vectors)"
        found.append(Check.failed("row-count", entry.file_name, None, "_ROW_COUNT", expected, entry.row_count))
    return found


def _failed(name: str, subject: str, err: DecodeError | OSError) -> Check:
    if isinstance(err, DecodeError):
        return Check.from_error(name, subject, err)
    words = str(err) if isinstance(err, StoreError) else str(err.strerror or err)
    return Check.failed(name, subject, None, words, "a file that can be read", "none")


def _lance(path: str, check: bool, as_json: bool) -> list[Check]:
    found = lance.read_manifest(path, storage_options=storage())
    row_ids = [_row_ids(fragment) for fragment in found.fragments]
    findings = _check_lance(found, row_ids, _root(path, "_versions")) if check else []
    fragments = [_fragment(fragment, ids) for fragment, ids in zip(found.fragments, row_ids, strict=True)]
    if as_json:
        about = {
            "version": found.version,
            "next_row_id": found.next_row_id,
            "stable_row_ids": found.has_stable_row_ids,
            "reader_flags": found.reader_flags,
            "writer_flags": found.writer_flags,
            "writer": found.writer,
            "fragments": fragments,
        }
        print_json({"source": path, "kind": "lance"} | about | _findings_json(findings, check))
        return findings
    ids = f"stable row ids, next {found.next_row_id:,}" if found.has_stable_row_ids else "no stable row ids"
    about_text = f"version {found.version}, {counted(len(fragments), 'fragment')}, {ids}"
    say((path, "bold"), f"  Lance manifest, {about_text}" + (f", by {found.writer}" if found.writer else ""))
    columns = ("fragment", "rows", "deleted", "deletion file", "row ids", "as", "bytes")
    shown = Table(*columns, right=("fragment", "rows", "deleted", "bytes"))
    for item in fragments:
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
    _show_findings(findings, check, counted(len(fragments), "fragment"))
    return findings


def _row_ids(fragment: lance.Fragment) -> lance.RowIdSequence | DecodeError | None:
    """Return the row ids of a fragment, or why they cannot be read; they are decoded once."""
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


def _check_lance(
    found: lance.Manifest, row_ids: list[lance.RowIdSequence | DecodeError | None], root: str
) -> list[Check]:
    findings: list[Check] = []
    parts = []
    named: set[tuple[int | None, str]] = set()
    for fragment, ids in zip(found.fragments, row_ids, strict=True):
        deleted = RowSet()
        subject = f"fragment {fragment.id}"
        file = fragment.deletion_file
        place = None if file is None else (file.base_id, file.path(""))
        if place in named:  # and it was read
            what, actual = "deletion file", f"that of another fragment: {place[1]}"
            findings.append(Check.failed("deletion-file", subject, None, what, "one of its own", actual))
        else:
            named |= set() if place is None else {place}
            try:
                deleted = fragment.deleted_rows(root, storage_options=storage().of_table(root))
            except (DecodeError, OSError) as err:
                findings.append(_failed("deletion-file", subject, err))
        if isinstance(ids, DecodeError):
            findings.append(Check.from_error("sequence", subject, ids))
        elif ids is not None:
            parts.append(lance.FragmentIds(fragment.id, ids, deleted, fragment.physical_rows or None))
        try:
            if fragment.created_at is not None:
                fragment.created_at_versions()
            if fragment.last_updated_at is not None:
                fragment.last_updated_at_versions()
        except DecodeError as err:
            findings.append(Check.from_error("sequence", subject, err))
    report = lance.check_row_ids(parts, next_row_id=found.next_row_id if parts else None)
    return findings + list(report.findings)


def _show_findings(findings: list[Check], check: bool, what: str) -> None:
    for found in findings:
        say(("FAIL  ", "bold red"), check_text(found))
    if check and not findings:
        say(("ok    ", "green"), f"{what}, all valid")


def _findings_json(findings: list[Check], check: bool) -> dict[str, Any]:
    return {"findings": [found.to_dict() for found in findings]} if check else {}

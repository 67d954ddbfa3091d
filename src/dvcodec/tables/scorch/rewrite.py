"""Rewrite a scorch index: compaction, and repair. A plan, and its commit.

`plan_compaction` and `plan_repair` say what would be done; nothing is written. `commit_rewrite` does it: it writes new
segments, then a new snapshot into ``root.bolt``, in one transaction as bbolt makes them; then it removes what no
snapshot needs. A process that is killed in between leaves the old index, or the new one. An index that another process
has open is refused.

Actions, each the `action` of its `IndexAction`:

- ``rewrite-segment``: write a segment again, without its deleted documents; or one whose chunks zapx 17.0.9 to 17.1.3
  misplaced, so that they are where other readers expect them;
- ``merge-segments``: write all segments as one, without deleted documents;
- ``remove-segment``: leave out a segment all of whose documents are deleted;
- ``remove-snapshots``: remove older snapshots, which need the old segments;
- ``drop-segment``: leave out a segment that is missing or damaged: its documents are lost, and have to be indexed
  again. A damaged file is set aside as ``NAME.damaged``;
- ``go-back``: use the contents that ``root.bolt`` had before its last transaction, if only the newer ones are damaged.
  The old file is set aside as ``root.bolt.damaged``;
- ``rebuild-root``: make a new ``root.bolt`` from the segments in the folder. Of documents with one id, that in the
  segment of the highest number counts. Those that were deleted and not indexed again become live again. The old file is
  set aside as ``root.bolt.damaged``.

Only bleve's own process knows documents that it has not written yet; so stop it first.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from io import BytesIO
from json import JSONDecoder
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, TypeAlias

import numpy as np

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from dvcodec.core.errors import CommitConflict, DecodeError, DvcodecError, Unsupported, UsageError
from dvcodec.core.interrupts import uninterrupted
from dvcodec.core.json_text import parse_json
from dvcodec.core.ragged import ByteStrings
from dvcodec.core.rowset import RowSet
from dvcodec.core.text import counted
from dvcodec.io import Storage, open_sink, open_source
from dvcodec.io.opening import remove
from dvcodec.io.sink import sync_folder
from dvcodec.io.target import local_path
from dvcodec.tables.folder import Folder
from dvcodec.tables.scorch.bolt import Meta, Tree, encode_file, read_metas, tree_of, write_transaction
from dvcodec.tables.scorch.table import (
    INTERNAL,
    META_DATA,
    ROOT,
    SEGMENT_SUFFIX,
    SNAPSHOTS,
    STORE,
    Epoch,
    Root,
    SegmentEntry,
    encode_key,
    read_root,
)
from dvcodec.zap import Segment, merge_segments, verify_segment
from dvcodec.zap.footer import ID, Footer, decode_footer
from dvcodec.zap.merge import rank_terms

DAMAGED_SUFFIX = ".damaged"
Progress: TypeAlias = "Callable[[int, int], None]"


def _silent(done: int, total: int) -> None:
    """Take notice of progress, and say nothing."""


_RESTORES, _LOSES = frozenset({"rebuild-root", "go-back"}), frozenset({"drop-segment", "go-back"})
_MAPPING = b"_mapping"
_MOST_MAPPING = 1 << 22
"""Bytes of a mapping's JSON."""
_NAMED = re.compile(r"[0-9a-f]{12,16}\.zap")


@dataclass(frozen=True, slots=True)
class IndexAction:
    """An action of a plan.

    Attributes:
        action: its name; see the module.
        message: the same in words.
        segments: file names of the segments.
        documents: how many documents go: deleted ones, or lost ones; None if unknown.
    """

    action: str
    message: str
    segments: tuple[str, ...] = ()
    documents: int | None = None

    @property
    def restores_documents(self) -> bool:
        """Whether documents that are deleted now may become live again."""
        return self.action in _RESTORES

    @property
    def loses_documents(self) -> bool:
        """Whether live documents are no longer in the index afterwards, or may not be."""
        return self.action in _LOSES and self.documents != 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {name: getattr(self, name) for name in self.__slots__} | {"segments": list(self.segments)}


@dataclass(frozen=True, slots=True)
class _NewRoot:
    """What ``root.bolt`` is to contain.

    Attributes:
        transaction: the last one when it was planned; None if no meta page is intact.
        others: what is kept beside the new snapshot: all buckets, without those of the snapshots that are removed.
        snapshot: number of the new snapshot.
        bucket: the new snapshot, without segments that are yet to be written.
        groups: segments to be written, each from one or more.
        version: of the segments.
        frees: files to be removed afterwards.
        damaged: files to be set aside afterwards.
    """

    transaction: int | None
    others: Tree
    snapshot: int
    bucket: Tree
    groups: Sequence[Sequence[SegmentEntry]]
    version: int
    frees: frozenset[str]
    damaged: frozenset[str]


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What would be done to an index; nothing has been done.

    Attributes:
        index: path of the folder that has ``root.bolt``.
        snapshot: id of the snapshot that is the base; None if there is none that can be read.
        actions: what to do.
        unfixed: what is wrong and stays so, or cannot be done, in words.
        new: for `commit_rewrite`: what it writes; None without actions.
    """

    index: str
    snapshot: int | None
    actions: tuple[IndexAction, ...]
    unfixed: tuple[str, ...]
    new: _NewRoot | None = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        actions = [action.to_dict() for action in self.actions]
        return {"index": self.index, "snapshot": self.snapshot, "actions": actions, "unfixed": list(self.unfixed)}


@dataclass(frozen=True, slots=True)
class RewrittenIndex:
    """The result of `commit_rewrite`.

    Attributes:
        snapshot: id of the new snapshot.
        written: file names of the new segments.
        removed: file names of segments that were removed.
        set_aside: file names of damaged files, which have the suffix ``.damaged`` now.
    """

    snapshot: int
    written: tuple[str, ...]
    removed: tuple[str, ...]
    set_aside: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


# ---------------------------------------------------------------------- compaction


def plan_compaction(location: Folder | str, *, merge: bool = False) -> IndexPlan:
    """Plan to write segments without their deleted documents. Snapshots but the newest are removed.

    Segments with vectors or geo shapes stay as they are, because only bleve can write those.

    Args:
        location: the `Folder` of an index; or its path.
        merge: write all segments as one, even those without deleted documents.

    Raises:
        UsageError: it is not the folder of an index on this machine, or it has no snapshot.
        Unsupported: contents that the application transformed (encrypted).
        DecodeError: ``root.bolt`` or a segment is corrupt: `plan_repair` may help.
        OSError: a file cannot be read.
    """
    store = _Store.find(location)
    root = store.root()
    if not root.epochs:
        raise UsageError(f"{store.path}: no snapshot yet")
    epoch = root.epochs[-1]
    counts, deleted = {}, {entry.file_name: len(entry.deleted_rows()) for entry in epoch.segments}
    left, gone, unfixed = [], set[str](), []
    for entry in epoch.segments:
        name = entry.file_name
        with Segment.open(store.path / name, verify_checksum=False, limits=store.storage.limits) as segment:
            counts[name] = segment.num_docs
            if any(info.vectors is not None or info.shapes is not None for info in segment.fields):
                unfixed.append(f"{name}: stays as it is: only bleve can write its vectors or geo shapes")
            elif deleted[name] == segment.num_docs:
                gone.add(name)
            else:
                left.append(entry)
    if merge:
        fields = {bytes(entry.bucket.get(b"fields", b"null")) for entry in left}
        if len(fields) > 1:
            raise UsageError(
                f"{store.path}: fields were dropped since some segments were written, and not of others: do not merge"
            )
    groups = [left] if merge else [[entry] for entry in left]
    groups = [group for group in groups if len(group) > 1 or any(deleted[entry.file_name] for entry in group)]
    actions = [_compaction([entry.file_name for entry in group], counts, deleted) for group in groups]
    for name in sorted(gone):
        message = f"{name}: removed, all of its {counted(counts[name], 'document')} are deleted"
        actions.append(IndexAction("remove-segment", message, (name,), counts[name]))
    older = [epoch_.id for epoch_ in root.epochs[:-1]]
    if actions and older:
        message = f"{counted(len(older), 'older snapshot')} removed, to which bleve could go back"
        actions.append(IndexAction("remove-snapshots", message))
    new = _replacing(root, groups, gone) if actions else None
    return IndexPlan(str(store.path), epoch.id, tuple(actions), tuple(unfixed), new)


def _compaction(names: Sequence[str], counts: Mapping[str, int], deleted: Mapping[str, int]) -> IndexAction:
    goes = sum(deleted[name] for name in names)
    what = f"{counted(sum(counts[name] for name in names) - goes, 'document')}, without {goes:,} deleted"
    if len(names) == 1:
        return IndexAction("rewrite-segment", f"{names[0]}: written again with {what}", tuple(names), goes)
    message = f"{len(names)} segments written as one with {what}"
    return IndexAction("merge-segments", message, tuple(names), goes)


# ---------------------------------------------------------------------- repair


def plan_repair(
    location: Folder | str,
    *,
    mapping: bytes | None = None,
    progress: Progress = _silent,
) -> IndexPlan:
    """Plan the repair of an index that bleve does not open, or opens in an older state; all of it is read.

    Args:
        location: the `Folder` of an index; or its path.
        mapping: the index mapping, as bleve's JSON, for an index whose ``root.bolt`` is lost or has it no more.
        progress: called with the segments verified so far, and all.

    Raises:
        UsageError: it is not the folder of an index on this machine; or no mapping is known, or it is not JSON.
        Unsupported: contents that the application transformed (encrypted).
        OSError: a file cannot be read.
    """
    store = _Store.find(location)
    root: Root | None = None
    problem: str | None = None
    try:
        root = store.root()
    except Unsupported:
        raise
    except (DecodeError, FileNotFoundError) as error:
        problem = " ".join(str(error).split())
        with suppress(DecodeError, FileNotFoundError):
            root = store.root(before=True)
    if root is None or not root.epochs:
        return _rebuild(store, problem, mapping, progress)
    epoch = root.epochs[-1]
    names = _names(root.epochs)
    actions = []
    if problem is not None:
        unnamed = [name for name in store.segments() if name > max(names, default="")]
        lost = sum(footer.num_docs for name in unnamed if (footer := store.footer(name)))
        newer = f", without {counted(lost, 'document')} of {counted(len(unnamed), 'later segment')}" if unnamed else ""
        message = f"{ROOT} goes back to snapshot {epoch.id}, by one transaction{newer}: {problem}"
        actions.append(IndexAction("go-back", message, tuple(unnamed), lost))
    groups, damaged, unfixed = [], set[str](), []
    for i, entry in enumerate(epoch.segments):
        progress(i, len(epoch.segments))
        action = store.judge(entry, epoch.version)
        if isinstance(action, str):
            unfixed.append(action)
        elif action is not None:
            actions.append(action)
            if action.action == "drop-segment":
                damaged.add(entry.file_name)
            else:
                groups.append([entry])
    whole = {name for name in names - damaged if store.footer(name) is not None}
    older = [one for one in root.epochs[:-1] if whole.issuperset(entry.file_name for entry in one.segments)]
    if damaged and len(older) + 1 < len(root.epochs):
        message = f"{counted(len(root.epochs) - 1 - len(older), 'older snapshot')} removed, without a segment as well"
        actions.append(IndexAction("remove-snapshots", message))
    new = _replacing(root, groups, damaged, older=older, damaged=damaged) if actions else None
    return IndexPlan(str(store.path), epoch.id, tuple(actions), tuple(unfixed), new)


def _names(epochs: Iterable[Epoch]) -> set[str]:
    return {entry.file_name for epoch in epochs for entry in epoch.segments}


def _replacing(
    root: Root,
    groups: Sequence[Sequence[SegmentEntry]],
    gone: Iterable[str],
    *,
    older: Sequence[Epoch] = (),
    damaged: Iterable[str] = (),
) -> _NewRoot:
    """Return a root whose newest snapshot replaces the one before.

    Args:
        root: the root before.
        groups: segments of its newest snapshot to be written again.
        gone: file names of those to be left out.
        older: snapshots to be kept.
        damaged: see `_NewRoot`.
    """
    epoch, others = root.epochs[-1], tree_of(root.contents)
    replaced = {*gone, *(entry.file_name for group in groups for entry in group)}
    kept = [entry for entry in epoch.segments if entry.file_name not in replaced]
    stays = _names(older).union(entry.file_name for entry in kept)
    old = others[SNAPSHOTS][encode_key(epoch.id)]
    removed = {encode_key(one.id) for one in root.epochs} - {encode_key(one.id) for one in older}
    others[SNAPSHOTS] = {key: entry for key, entry in others[SNAPSHOTS].items() if key not in removed}
    segments = {encode_key(entry.id): entry.bucket for entry in kept}
    bucket = {META_DATA: old[META_DATA], INTERNAL: old[INTERNAL], **segments}
    frees = frozenset(_names(root.epochs) - stays.union(damaged))
    aside = frozenset(damaged)
    return _NewRoot(root.transaction, others, epoch.id + 1, bucket, groups, epoch.version, frees, aside)


def _rebuild(store: _Store, problem: str | None, mapping: bytes | None, progress: Progress) -> IndexPlan:
    """Plan a new root from the segments in the folder."""
    names = store.segments()
    if not names:
        return IndexPlan(str(store.path), None, (), () if problem is None else (problem,), None)
    mapping = store.find_mapping() if mapping is None else _check_mapping(mapping, "mapping")
    # That of the segment with the highest number whose footer can be read.
    version = next((footer.version for name in reversed(names) if (footer := store.footer(name))), None)
    if version is None:
        raise UsageError(f"{store.path}: no segment has a footer that can be read")
    actions, unfixed, good, damaged = [], [], [], set[str]()
    for i, name in enumerate(names):
        progress(i, len(names))
        action = store.judge(SegmentEntry(0, name, None, frozenset(), {}), version)
        if isinstance(action, IndexAction):
            actions.append(action)
            damaged.add(name)
        else:
            unfixed += [] if action is None else [action]
            good.append(name)
    segments = {}
    live = 0
    for name, (count, deleted) in zip(good, store.superseded(good), strict=True):
        live += count - len(deleted)
        if len(deleted) < count:
            segments[encode_key(_number(name))] = _segment_bucket(name, deleted)
    message = (
        f"{ROOT} made new from {counted(len(segments), 'segment')} with {counted(live, 'document')}, "
        f"those that were deleted and not indexed again among them: {problem or 'it names no snapshot'}"
    )
    actions.insert(0, IndexAction("rebuild-root", message, tuple(good)))
    meta = {b"type": b"zap", b"version": version.to_bytes(4, "big") + b"\0", b"fileWriterID": b""}
    bucket = {META_DATA: meta, INTERNAL: {_MAPPING: mapping}, **segments}
    last = store.meta()
    transaction = None if last is None else last.transaction
    new = _NewRoot(transaction, {SNAPSHOTS: {}}, 1, bucket, (), version, frozenset(), frozenset(damaged))
    return IndexPlan(str(store.path), None, tuple(actions), tuple(unfixed), new)


def _transformed(path: Path) -> Unsupported:
    return Unsupported("contents transformed by a writer of its own", source=str(path), expected="an empty writer id")


def _number(name: str) -> int:
    """Return the number in the file name of a segment."""
    return int(name.removesuffix(SEGMENT_SUFFIX), 16)


def _check_mapping(data: bytes, name: str) -> bytes:
    if not isinstance(found := parse_json(data, None, name), dict) or "default_mapping" not in found:
        raise UsageError(f"{name}: expected the JSON of an index mapping, an object with default_mapping")
    return data


def _segment_bucket(name: str, deleted: RowSet, others: Tree = MappingProxyType({})) -> Tree:
    """Return the bucket of a segment; `others` are its further entries."""
    found = {**others, b"p": name.encode()}
    if deleted:
        found[b"d"] = b"".join(deleted.serialized()[0])
    return found


@dataclass(frozen=True, slots=True)
class _Store:
    """The folder of ``root.bolt`` and the segments."""

    path: Path
    storage: Storage

    @classmethod
    def find(cls, location: Folder | str) -> _Store:
        folder = Folder.of(location)
        local = local_path(folder.location)
        if local is None:
            raise UsageError(f"{folder.location}: only an index on this machine is written, where bleve can lock it")
        for path in (local, local / STORE):
            if (path / ROOT).exists() or any(path.glob(f"*{SEGMENT_SUFFIX}")):
                return cls(path, folder.storage)
        raise UsageError(f"{folder.location}: not a scorch index (neither {ROOT} nor segments)")

    def root(self, *, before: bool = False) -> Root:
        """Read the root, or what it was before its last transaction.

        Raises:
            Unsupported: contents that the application transformed.
            DecodeError: it is corrupt, or a bitmap of deleted documents in its newest snapshot is.
            FileNotFoundError: there is none.
        """
        root = read_root(str(self.path / ROOT), self.storage, before=before)
        for epoch in root.epochs[-1:]:
            if epoch.writer_id:
                raise _transformed(self.path / ROOT)
            for entry in epoch.segments:
                entry.deleted_rows()
        return root

    def meta(self) -> Meta | None:
        """Return the meta page of the last transaction; None if none is intact."""
        try:
            with self.storage.open(str(self.path / ROOT)) as source:
                return read_metas(source)[0]
        except (DecodeError, FileNotFoundError):
            return None

    def segments(self) -> list[str]:
        """Return the file names of segments, ascending by number."""
        names = (path.name for path in self.path.glob(f"*{SEGMENT_SUFFIX}") if _NAMED.fullmatch(path.name))
        return sorted(names, key=_number)

    def footer(self, name: str) -> Footer | None:
        """Return the footer of a segment; None if it has none that can be read."""
        try:
            with open_source(self.path / name) as source:
                return decode_footer(source)
        except (DecodeError, FileNotFoundError):
            return None

    def judge(self, entry: SegmentEntry, version: int) -> IndexAction | str | None:
        """Verify a segment; return what is to be done about it, or what is wrong and stays so.

        Raises:
            Unsupported: contents that the application transformed.
        """
        name, path = entry.file_name, self.path / entry.file_name
        try:
            report = verify_segment(path, limits=self.storage.limits)
        except FileNotFoundError:
            return IndexAction("drop-segment", f"{name}: left out, there is no such file", (name,))
        found = {check.name for check in report.findings}
        count = None
        if (footer := self.footer(name)) is not None:
            if footer.writer_id:
                raise _transformed(path)
            count = footer.num_docs - len(entry.deleted_rows())
            if not found and footer.version == version:
                return None
        if found == {"crc"}:
            return (
                f"{name}: its checksum does not match, but all of it can be read, by bleve too: some value in it is "
                "wrong, and it is unknown which; index its documents again"
            )
        first = next(iter(report.findings), None)
        reason = (
            f"it is not of version {version}" if first is None else f"{first.name} of {first.subject}, {first.message}"
        )
        if first is not None and "crc" not in found and self._can_be_written_again(entry):
            return IndexAction("rewrite-segment", f"{name}: written again: {reason}", (name,), 0)
        lost = "its documents are lost" if count is None else f"{counted(count, 'document')} lost"
        return IndexAction("drop-segment", f"{name}: left out, {lost}: {reason}", (name,), count)

    def _can_be_written_again(self, entry: SegmentEntry) -> bool:
        """Whether a segment that a writer got wrong, under a right checksum, is right when it is written again."""
        buffer = BytesIO()
        try:
            with Segment.open(self.path / entry.file_name, salvage=True, limits=self.storage.limits) as segment:
                merge_segments(buffer, [segment], [entry.deleted_rows()])
        except (DvcodecError, OSError):
            return False
        return verify_segment(buffer.getvalue(), limits=self.storage.limits).ok

    def superseded(self, names: Sequence[str]) -> list[tuple[int, RowSet]]:
        """Return of each segment how many documents it has, and those whose id a later segment has as well.

        Documents that are nested in these are among them.
        """
        ids, owners, roots = [], [], []
        for name in names:
            with Segment.open(self.path / name, verify_checksum=False, limits=self.storage.limits) as segment:
                owner = np.empty(segment.num_docs, np.int64)
                terms, first = [], 0
                for keys, found in segment.lists(ID):
                    owner[found.docs] = found.owner + first
                    terms.append(keys)
                    first += len(keys)
                root = np.arange(segment.num_docs)
                root[segment.edges.children] = segment.edges.parents
                while (root[root] != root).any():
                    root = root[root]
            ids.append(ByteStrings.concat(terms))
            owners.append(owner)
            roots.append(root)
        union, ranks = rank_terms(ids)
        last = np.zeros(len(union), np.int64)
        for place, rank in enumerate(ranks):
            last[rank] = place
        return [
            (len(owner), RowSet.from_mask((last[rank[owner]] != place)[root]))
            for place, (rank, owner, root) in enumerate(zip(ranks, owners, roots, strict=True))
        ]

    def find_mapping(self) -> bytes:
        """Return the index mapping, which ``root.bolt`` has behind its key, also in pages that are no longer in use.

        Raises:
            UsageError: there is none, or there are different ones.
        """
        data = (self.path / ROOT).read_bytes() if (self.path / ROOT).exists() else b""
        found = set()
        for match in re.finditer(_MAPPING + rb"(?=\{)", data):
            text = data[match.end() : match.end() + _MOST_MAPPING].decode(errors="surrogateescape")
            with suppress(ValueError):
                value, end = JSONDecoder().raw_decode(text)
                if "default_mapping" in value:
                    found.add(text[:end].encode())
        if len(found) != 1:
            what = "no index mapping" if not found else f"{len(found)} different index mappings"
            raise UsageError(f"{self.path / ROOT}: {what} in it: give the mapping of the index (--mapping FILE)")
        return found.pop()


# ---------------------------------------------------------------------- commit


def commit_rewrite(
    plan: IndexPlan,
    *,
    accept_restored_documents: bool = False,
    accept_lost_documents: bool = False,
    progress: Progress = _silent,
) -> RewrittenIndex:
    """Do what a plan says.

    Args:
        plan: from `plan_compaction` or `plan_repair`.
        accept_restored_documents: allow that documents which are deleted now become live again.
        accept_lost_documents: allow that documents are no longer in the index afterwards.
        progress: called with the segments written so far, and all.

    Raises:
        UsageError: the plan has no actions, or one that is not allowed; or another process has the index open.
        CommitConflict: the index was written since it was planned; nothing was changed.
        DecodeError: a segment is corrupt; nothing was changed.
        OSError: a file cannot be written; nothing was changed, or old files could not be removed.
    """
    new = plan.new
    if new is None:
        raise UsageError(f"{plan.index}: there is nothing to do")
    for action in plan.actions:
        if action.restores_documents and not accept_restored_documents:
            raise UsageError(
                f"{action.action} may make deleted documents live again: allow it (--accept-restored-rows)"
            )
        if action.loses_documents and not accept_lost_documents:
            raise UsageError(f"{action.action} leaves out documents: allow it (--accept-lost-documents)")
    store = _Store(Path(plan.index), Storage())
    with _locked(store.path / ROOT) as file:
        meta = store.meta()
        if (None if meta is None else meta.transaction) != new.transaction:
            raise CommitConflict(f"{plan.index}: the index was written since it was planned: plan again")
        written: list[str] = []
        try:
            bucket = {**new.bucket, **_write_segments(store, new, written, progress)}
            bucket[META_DATA] = {**bucket[META_DATA], b"timeStamp": _now()}
            snapshots = {**new.others[SNAPSHOTS], encode_key(new.snapshot): bucket}
            with uninterrupted():
                _write_root(store, file, meta, {**new.others, SNAPSHOTS: snapshots}, plan)
        except BaseException:
            for name in written:
                remove(store.path / name)
            raise
        for name in new.damaged:
            with suppress(FileNotFoundError):
                (store.path / name).replace(store.path / (name + DAMAGED_SUFFIX))
        for name in new.frees:
            (store.path / name).unlink(missing_ok=True)
        sync_folder(store.path)
    aside = tuple(sorted(name for name in new.damaged if (store.path / (name + DAMAGED_SUFFIX)).exists()))
    return RewrittenIndex(new.snapshot, tuple(written), tuple(sorted(new.frees)), aside)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO | None]:
    """Open a root for writing, locked as bbolt locks it; None if there is no such file.

    Raises:
        UsageError: another process has it open; or this system does not have such locks.
    """
    if fcntl is None:
        raise UsageError(f"{path}: an index is written on systems with flock only, by which bleve locks it")
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        yield None
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{path}: another process has the index open: stop it first") from None
        yield file


def _write_segments(store: _Store, new: _NewRoot, written: list[str], progress: Progress) -> dict[bytes, Tree]:
    """Write the new segments, and add their names to `written`; return their buckets."""
    names = {path.name.removesuffix(DAMAGED_SUFFIX) for path in store.path.iterdir()} | new.damaged
    number = max((_number(name) for name in names if _NAMED.fullmatch(name)), default=0)
    buckets: dict[bytes, Tree] = {}
    for group in new.groups:
        number += 1
        name = f"{number:012x}{SEGMENT_SUFFIX}"
        progress(len(written), len(new.groups))
        with ExitStack() as stack:
            segments = [
                stack.enter_context(Segment.open(store.path / one.file_name, salvage=True, limits=store.storage.limits))
                for one in group
            ]
            written.append(name)
            merge_segments(store.path / name, segments, [one.deleted_rows() for one in group], new.version)
        others = {key: value for key, value in group[0].bucket.items() if key not in (b"p", b"d")}
        buckets[encode_key(number)] = _segment_bucket(name, RowSet(), others)
    return buckets


def _write_root(store: _Store, file: BinaryIO | None, meta: Meta | None, tree: Tree, plan: IndexPlan) -> None:
    if file is not None and any(action.action in ("rebuild-root", "go-back") for action in plan.actions):
        shutil.copyfile(store.path / ROOT, store.path / (ROOT + DAMAGED_SUFFIX))
    if file is None or meta is None:
        with open_sink(store.path / ROOT) as sink:
            sink.write(encode_file(tree))
    else:
        write_transaction(file, meta, tree)


def _now() -> bytes:
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z").encode()

"""Vectors as the index manifest records them, and index files held against it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cases import each
from dvcodec import RowSet, paimon
from dvcodec.core.vector import StoredFrame
from dvcodec.io import Storage
from dvcodec.paimon import DeletionVectorMeta, IndexManifestEntry
from dvcodec.tables import DeletionVector, Folder
from dvcodec.tables.paimon.manifests import IndexedVector, check_index_file, vectors_of_entry

ROWS = {"a": RowSet([1, 5]), "b": RowSet(range(300)), "c": RowSet([2**20])}


def write(folder: Path, kinds: Sequence[int]) -> IndexManifestEntry:
    """An index file with a vector of each kind."""
    frames = [
        StoredFrame(name, len(rows), paimon.encode(rows, layout=f"bitmap{bits}"))
        for bits, (name, rows) in zip(kinds, ROWS.items(), strict=False)
    ]
    written = paimon.write_stored_vectors(folder / "index-1", frames)
    metas = tuple(map(DeletionVectorMeta.from_location, written))
    size = (folder / "index-1").stat().st_size
    return IndexManifestEntry(paimon.DELETION_VECTORS, "index-1", size, len(metas), vectors=metas)


def vectors(folder: Path, entry: IndexManifestEntry, *, bitmap64: bool = False) -> list[DeletionVector]:
    return list(vectors_of_entry(entry, Folder(str(folder)), "index-1", lambda name: f"d/{name}", bitmap64=bitmap64))


def failed(folder: Path, entry: IndexManifestEntry) -> dict[str, str | None]:
    found = check_index_file(str(folder / "index-1"), vectors(folder, entry), Storage())
    return {finding.check: finding.what for finding in found}


@each("kinds", [(32,), (64,), (32, 32, 32), (64, 64, 64), (32, 64, 32), (64, 32, 64)])
@each("bitmap64", [False, True])
def test_each_vector_is_of_its_own_kind_and_its_size_that_of_the_frame(
    tmp_path: Path, kinds: tuple[int, ...], bitmap64: bool
) -> None:
    entry = write(tmp_path, kinds)
    found = vectors(tmp_path, entry, bitmap64=bitmap64)
    assert [vector.format for vector in found] == [f"paimon{bits}" for bits in kinds]
    for vector, bits, (name, rows) in zip(found, kinds, ROWS.items(), strict=False):
        assert vector.size == len(paimon.encode(rows, layout=f"bitmap{bits}"))
        assert (vector.data_file, vector.path, vector.cardinality) == (f"d/{name}", "index-1", len(rows))
        assert (vector.location, vector.file_size) == (str(tmp_path / "index-1"), entry.file_size)
        assert IndexedVector.of(vector).meta in (entry.vectors or ())
    assert failed(tmp_path, entry) == {}


def test_file_is_not_opened_for_vectors_that_stand_back_to_back(tmp_path: Path) -> None:
    entry = write(tmp_path, (32, 64, 32))
    (tmp_path / "index-1").unlink()
    assert [vector.format for vector in vectors(tmp_path, entry)] == ["paimon32", "paimon64", "paimon32"]


def test_magic_decides_where_records_leave_gaps(tmp_path: Path) -> None:
    entry = write(tmp_path, (64, 32, 64))
    some = replace(entry, vectors=((entry.vectors or ())[0], (entry.vectors or ())[2]))
    assert [vector.format for vector in vectors(tmp_path, some)] == ["paimon64", "paimon64"]
    assert failed(tmp_path, replace(some, row_count=3)) == {}
    (tmp_path / "index-1").unlink()
    assert [vector.format for vector in vectors(tmp_path, some)] == ["paimon32", "paimon64"]
    assert [vector.format for vector in vectors(tmp_path, some, bitmap64=True)] == ["paimon64", "paimon64"]


def change_meta(entry: IndexManifestEntry, number: int, **changes: Any) -> IndexManifestEntry:
    metas = list(entry.vectors or ())
    metas[number] = replace(metas[number], **changes)
    return replace(entry, vectors=tuple(metas))


def test_what_the_metadata_says_wrong_is_found(tmp_path: Path) -> None:
    entry = write(tmp_path, (32, 64, 32))
    metas = entry.vectors or ()
    assert failed(tmp_path, replace(entry, row_count=2)) == {"count": "_ROW_COUNT"}
    assert failed(tmp_path, change_meta(entry, 1, offset=metas[1].offset - 1)) == {
        "record": "vector",
    }
    longer = change_meta(entry, 1, length=metas[1].length + 4)
    assert failed(tmp_path, longer) == {"record": "size of the vector"}

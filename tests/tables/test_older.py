"""Where the current snapshot is damaged, an older one that is whole is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cases import each
from cli_runner import run
from dvcodec import DecodeError, RowSet, Unsupported
from dvcodec.tables import open_table
from dvcodec.tables.auditing import audit
from samples.delta_log import NEW, restored_table
from samples.iceberg_table import Commit, build_iceberg


def iceberg(root: Path, _: Path) -> Path:
    build_iceberg(root, Commit({"a": 9}), Commit(vectors={"a": RowSet([1])}), Commit(vectors={"a": RowSet([1, 2])}))
    (newest,) = (root / "metadata").glob("*.metadata.json")
    shutil.copy(newest, newest.with_name("v2.metadata.json"))
    (root / "metadata/version-hint.text").unlink(missing_ok=True)
    return root


def delta(root: Path, _: Path) -> Path:
    return restored_table(root)


def paimon(root: Path, vectors: Path) -> Path:
    return Path(shutil.copytree(vectors / "tables/paimon/java-1.4.2/changed64/table", root))


def lance(root: Path, vectors: Path) -> Path:
    return Path(shutil.copytree(vectors / "tables/lance/pylance-14.0.2/life", root))


def list_of_snapshot_7(root: Path) -> str:
    return f"manifest/{json.loads((root / 'snapshot/snapshot-7').read_text())['deltaManifestList']}"


@each(
    ("make", "damaged", "gone", "named"),
    [
        (
            iceberg,
            "metadata/v2.metadata.json",
            False,
            "metadata/v1.metadata.json can be read: open the table by its path",
        ),
        (iceberg, "metadata/snap-103.avro", False, "102"),
        (iceberg, "metadata/snap-103.avro", True, "102"),
        (iceberg, "metadata/manifest-3-1.avro", False, "102"),
        (delta, "_delta_log/00000000000000000002.json", False, "1"),
        (delta, "_delta_log/00000000000000000001.json", True, "0"),
        (paimon, "snapshot/snapshot-7", False, "6"),
        (paimon, list_of_snapshot_7, False, "6"),
        (paimon, list_of_snapshot_7, True, "6"),
        (lance, "_versions/18446744073709551598.manifest", False, "16"),
    ],
    ids=lambda one: getattr(one, "__name__", str(one)[:30]),
)
def test_an_older_snapshot_that_can_be_read_is_named(
    make: Callable[[Path, Path], Path],
    damaged: str | Callable[[Path], str],
    gone: bool,
    named: str,
    own_vectors: Path,
    tmp_path: Path,
) -> None:
    root = make(tmp_path / "t", own_vectors)
    path = root / (damaged if isinstance(damaged, str) else damaged(root))
    cut = path.read_bytes()[:50]
    path.unlink()
    if not gone:
        path.write_bytes(cut)
    note = f"snapshot {named} can be read: --snapshot {named}, or snapshot_id={named}" if named.isdigit() else named
    result = run("audit", root)
    assert (result.code, result.err.splitlines()[1:]) == (2, [f"dvcodec: {note}"])
    if named.isdigit():
        with pytest.raises((DecodeError, FileNotFoundError)) as caught:
            open_table(root).snapshot()
        assert caught.value.__notes__ == [note]  # type: ignore[attr-defined]
        assert run("audit", root, "--snapshot", named).code == 0
        assert audit(open_table(root), int(named)).ok


def test_nothing_is_named_for_what_is_not_read_here(tmp_path: Path) -> None:
    root = restored_table(tmp_path / "t")
    log = root / "_delta_log/00000000000000000002.json"
    features = {"readerFeatures": ["x"], "writerFeatures": ["x"]}
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
    log.write_text(f"{log.read_text()}{json.dumps(protocol)}\n")
    with pytest.raises(Unsupported) as caught:
        open_table(root).snapshot()
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize(
    ("damaged", "older"), [([NEW], 1), (["a.parquet"], None), ([], None)], ids=["vector", "data file", "nothing"]
)
def test_an_audit_names_the_newest_snapshot_without_its_errors(
    damaged: list[str], older: int | None, tmp_path: Path
) -> None:
    root = restored_table(tmp_path / "t")
    for name in damaged:
        (root / name).unlink()
    assert audit(open_table(root)).older == older
    line = f"snapshot {older} has no vector or data file with these errors (--snapshot {older})"
    assert (line in run("audit", root).out.splitlines()) == (older is not None)

"""Segments by zapx: ours reads in them what Go reads, and makes the same of what they were made of."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dvcodec import RowSet, Unsupported
from dvcodec.core.report import Status
from dvcodec.zap import Segment, merge_segments, verify_segment, write_segment
from dvcodec.zap.verify import Part, layout
from samples.zap.golden import documents, dump
from samples.zap.parts import SAMPLES

OWN = Path(__file__).parents[1] / "vectors" / "zap"
CHANCE_FROM = 16
"""From this version on Go writes some parts in random order."""


@dataclass(frozen=True)
class Golden:
    """A segment by zapx, what its reader says, and what it was made of: documents, or segments and drops."""

    path: Path
    dump: dict[str, Any]
    documents: Path | None
    inputs: tuple[tuple[Path, list[int] | None], ...] = ()
    numbers: list[list[int | None]] | None = None
    chunk_mode: int | None = None
    stale_counts: bool = False

    @property
    def version(self) -> int:
        return int(self.path.parent.name.removeprefix("zapx-").removeprefix("v").partition(".")[0])


def manifest(release: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((OWN / release / "manifest.json").read_text())
    return found


NAMES = SAMPLES + [
    f"{folder.name}/{entry['file']}" for folder in sorted(OWN.glob("zapx-*")) for entry in manifest(folder.name)
]


def load(name: str, vectors: Path) -> Golden:
    release, _, file = name.partition("/")
    if release.startswith("v"):
        return load_upstream(vectors / "zap", f"{name}.zap")
    folder = OWN / release
    (entry,) = [entry for entry in manifest(release) if entry["file"] == file]
    return Golden(
        folder / file,
        json.loads((folder / entry["dump"]).read_text()),
        folder / entry["documents"] if "documents" in entry else None,
        tuple((folder / one["file"], one["drops"]) for one in entry.get("merge_of", ())),
        entry.get("numbers"),
        entry.get("chunk_mode"),
    )


def load_upstream(folder: Path, name: str) -> Golden:
    entry = json.loads((folder / "MANIFEST.json").read_text())["files"][name]
    return Golden(
        folder / name,
        json.loads((folder / entry["dump"]).read_text()),
        folder / entry["fresh_from"] if "fresh_from" in entry else None,
        tuple((folder / f"{source}.zap", None) for source in entry.get("merge_of", ())),
        stale_counts=True,
    )


RELEASES = sorted({name.partition("/")[0] for name in NAMES})


@pytest.fixture(params=RELEASES)
def segments(request: pytest.FixtureRequest, vectors: Path) -> dict[str, Golden]:
    """The segments of a release."""
    return {name: load(name, vectors) for name in NAMES if name.startswith(f"{request.param}/")}


def made(golden: Golden) -> bytes:
    """The segment of the same documents, or of the same segments."""
    out = io.BytesIO()
    if golden.documents is not None:
        found = documents(json.loads(golden.documents.read_text()))
        write_segment(out, found, golden.version, chunk_mode=golden.chunk_mode)
    else:
        numbers = merge(golden, out)
        # zapx returns no numbers at all if no document is left.
        kept = [] if all(new is None for one in numbers for new in one) else numbers
        assert golden.numbers in (None, kept)
    return out.getvalue()


def merge(golden: Golden, out: io.BytesIO) -> list[list[int | None]]:
    with ExitStack() as stack:
        segments = [stack.enter_context(Segment.open(path)) for path, _ in golden.inputs]
        drops = [None if drop is None else RowSet(drop) for _, drop in golden.inputs]
        numbers = merge_segments(out, segments, drops, chunk_mode=golden.chunk_mode)
    return [[None if new < 0 else new for new in one.tolist()] for one in numbers]


def without_geo(found: dict[str, Any]) -> dict[str, Any]:
    """What dvcodec reads: all but the contents of geo sections."""
    return {key: value for key, value in found.items() if key != "geo"}


def findings(source: Path | bytes) -> Iterator[tuple[str, str]]:
    report = verify_segment(source)
    return ((check.name, check.subject) for check in report.checks if check.status is Status.FAIL)


def test_reads_what_go_reads_and_finds_it_valid(segments: dict[str, Golden]) -> None:
    for name, golden in segments.items():
        with Segment.open(golden.path) as segment:
            assert segment.version == golden.version, name
            assert dump(segment, stale_counts=golden.stale_counts) == without_geo(golden.dump), name
            spans = layout(segment)
        assert [span.start for span in spans] == [0, *(span.stop for span in spans[:-1])], name
        assert spans[-1].stop == golden.path.stat().st_size, name
        assert Part.OTHER not in {span.part for span in spans}, name
        assert list(findings(golden.path)) == [], name


def test_makes_what_go_makes(segments: dict[str, Golden]) -> None:
    for name, golden in segments.items():
        if "/geo" in name:  # dvcodec does not write geo sections
            continue
        ours = made(golden)
        with Segment.open(ours) as segment:
            assert dump(segment, stale_counts=golden.stale_counts) == golden.dump, name
        assert list(findings(ours)) == [], name
        if golden.version < CHANCE_FROM:
            assert ours == golden.path.read_bytes(), name


def test_a_geo_section_is_seen_and_not_merged() -> None:
    with Segment.open(OWN / "zapx-17.2.3" / "geo.zap") as segment:
        assert [info.name for info in segment.fields if info.shapes is not None] == ["g"]
        with pytest.raises(Unsupported, match="geo shapes cannot be merged"):
            merge_segments(io.BytesIO(), [segment])
    assert "geo" in load("zapx-17.2.3/geo.zap", OWN.parent / "upstream").dump

"""zapx: the same segments of the same documents and of the same merges, and each reads what the other wrote."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pytest

import amounts
from dvcodec import NotCanonical
from dvcodec.zap import Segment, write_segment
from interop.driver import Go
from interop.zap_bench import CHANCE_FROM, Bench, Input, dump_command, dumped, findings, merged
from interop.zap_cases import Json, chunked_set, document_set
from samples.zap.golden import documents, dump, to_key

pytestmark = pytest.mark.interop

VERSIONS = range(11, 18)
NEWEST = [str(version) for version in VERSIONS]
FIRST = [f"{version}_first" for version in VERSIONS]
"""The first release of each version on its module path that can be built."""
FACTOR, BALANCED_FROM, NORM_IS_LENGTH_FROM, SYNONYMS_FROM, NESTED_FROM = 11, 14, 15, 16, 17
CHANGED = (11, 14, 15, 17)
"""Versions whose postings, norms or sections differ from those of the version before."""
DOCUMENT_SETS, MERGES = amounts.of(24, 200), ((12, 8), (50, 30))[amounts.long]
"""Random segments of each such version; merges of some, and merges of those and of merges. A quarter of the others."""
Programs = Callable[[int | str], Go]


@pytest.mark.parametrize("version", [*NEWEST, *FIRST[:-1], "17_1"])
def test_the_committed_files_are_what_go_reads(go: Programs, own_vectors: Path, vectors: Path, version: str) -> None:
    """Those of 17.1 and 17.2 have what 17.0.1 does not know."""
    program = go(version)
    releases = "17.1" if version == "17_1" else version[:2]
    checked = 0
    for folder in (own_vectors / "zap").glob(f"zapx-{releases}.*"):
        for entry in json.loads((folder / "manifest.json").read_text()):
            expected = json.loads((folder / entry["dump"]).read_text())
            assert program.dump(folder / entry["file"], true_counts=True) == expected
            checked += 1
    for name, entry in json.loads((vectors / "zap/MANIFEST.json").read_text())["files"].items():
        if name.startswith(f"v{version[:2]}/"):
            assert program.dump(vectors / "zap" / name) == json.loads((vectors / "zap" / entry["dump"]).read_text())
            checked += 1
    assert checked > 16


def test_what_zapx_17_1_2_misplaces_is_read_where_go_reads_it_and_salvaged_elsewhere(
    go: Programs, vectors: Path, tmp_path: Path
) -> None:
    """Elsewhere Go loops, panics or returns wrong frequencies: the last is shown for one segment."""
    misplaces, mended, newest = go("17_1_2"), go("17_1"), go("17")
    commands: dict[str, list[Json]] = {"good": [], "bad": []}
    seeds = range(amounts.of(9, 60))
    names = [f"{seed}.{kind}" for seed in seeds for kind in ("fresh", "merged")]
    for seed in seeds:
        source = tmp_path / f"{seed}.docs"
        source.write_text(json.dumps(document_set(17, seed, mergeable=True)))
        for name, found in commands.items():
            fresh, merged_again = (tmp_path / f"{seed}.{kind}.{name}" for kind in ("fresh", "merged"))
            inputs = [{"path": str(tmp_path / f"{seed}.fresh.good")}]
            mode = {"chunk_mode": 1 + seed % 3}
            found.append({"op": "write", "docs": str(source), "out": str(fresh)} | mode)
            found.append({"op": "merge", "inputs": inputs, "out": str(merged_again)} | mode)
    answers = mended.answers(commands["good"] + [dump_command(tmp_path / f"{name}.good") for name in names])
    assert all("ok" in answer for answer in answers + misplaces.answers(commands["bad"]))
    read = []
    for name in names:
        expected = json.loads(dumped(tmp_path / f"{name}.good"))
        with Segment.open(tmp_path / f"{name}.bad", salvage=True) as segment:
            assert dump(segment) == expected
        with Segment.open(tmp_path / f"{name}.bad") as segment:
            try:
                assert dump(segment) == expected
                read.append(name)
            except NotCanonical as error:
                assert "zapx 17.0.9 to 17.1.3 misplaced" in error.what
    assert 0 < len(read) < len(names)
    assert all("ok" in answer for answer in newest.answers([dump_command(tmp_path / f"{name}.bad") for name in read]))
    assert all(dumped(tmp_path / f"{name}.bad") == dumped(tmp_path / f"{name}.good") for name in read)
    middle = tmp_path / "middle.zap"
    middle.write_bytes(gzip.decompress((vectors / "zap/misplaced/middle.zap.gz").read_bytes()))
    ((_, count, postings),) = newest.dump(middle, true_counts=True)["dicts"]["f"]
    assert (count, sum(rest == [1, "1", None] for _, *rest in postings)) == (2056, 1034)


# ---------------------------------------------------------------------- the same of the same


def bench(go: Programs, version: int, folder: Path) -> Bench:
    return Bench(version, folder, go(version), *([go("17_1")] if version == 17 else []))


@pytest.mark.parametrize("version", VERSIONS)
def test_segments_of_random_documents_equal_gos(go: Programs, tmp_path: Path, version: int) -> None:
    dice = random.Random(version)
    made = bench(go, version, tmp_path)
    for seed in range(DOCUMENT_SETS if version in CHANGED else DOCUMENT_SETS // 4):
        given = document_set(version, seed, mergeable=seed % 4 > 0)
        made.write(f"{seed}", given, documents(given), dice.choice([None, None, 1, 2, 7, 1024]))
    assert made.compare() == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_random_merges_equal_gos(go: Programs, tmp_path: Path, version: int) -> None:
    made = bench(go, version, tmp_path)
    pool = fresh_pool(go(version), tmp_path, version)
    dice = random.Random(version)
    for turn, most in enumerate(MERGES):
        count = most if version in CHANGED else most // 4
        names = [f"{turn}-{i}" for i in range(count)]
        inputs = [draw(dice, pool, version) for _ in names]
        pairs = [
            made.merge(name, one, dice.choice([None, None, 1, 3])) for name, one in zip(names, inputs, strict=True)
        ]
        assert made.compare() == {}
        for pair, one in zip(pairs, inputs, strict=True):
            pool += [(path, sum(each.kept for each in one)) for path in (pair.ours, pair.theirs)]


def fresh_pool(program: Go, folder: Path, version: int) -> list[tuple[Path, int]]:
    """Segments to merge, by dvcodec and by Go, each with the number of its documents."""
    pool, commands = [], []
    for seed in range(1000, 1060):
        given = document_set(version, seed, mergeable=True)
        source, ours, theirs = (folder / f"fresh-{seed}{suffix}" for suffix in (".docs", ".ours", ".theirs"))
        source.write_text(json.dumps(given))
        count = write_segment(ours, documents(given), version)
        commands.append({"op": "write", "docs": str(source), "out": str(theirs)})
        pool += [(ours, count), (theirs, count)]
    assert all("error" not in answer for answer in program.answers(commands))
    return pool


def draw(dice: random.Random, pool: Sequence[tuple[Path, int]], version: int) -> list[Input]:
    """Draw one to four segments and what to drop, so that some documents are left."""
    while True:
        drawn = []
        for _ in range(dice.choice([1, 2, 2, 3, 4])):
            path, count = dice.choice(pool)
            some = dice.sample(range(count), dice.randint(0, count))
            drops = dice.choice([None, [], some, some, some, range(count)])
            drawn.append(Input(path, count, None if drops is None else tuple(sorted(drops))))
        if 0 < sum(one.kept for one in drawn) < 300 and not (version >= NESTED_FROM and loses_a_thesaurus(drawn)):
            return drawn


def loses_a_thesaurus(drawn: Sequence[Input]) -> bool:
    """Whether no synonym is left of a thesaurus, and so zapx 17 could not read what it makes."""
    left: dict[str, bool] = {}
    for one in drawn:
        for name, docs in synonym_docs(one.path).items():
            left[name] = left.get(name, False) or bool(docs - set(one.drops or ()))
    return not all(left.values())


@cache
def synonym_docs(path: Path) -> dict[str, set[int]]:
    with Segment.open(path) as segment:
        found = ((info.name, segment.thesaurus(info.name)) for info in segment.fields)
        return {name: set(thesaurus.docs.tolist()) for name, thesaurus in found if thesaurus is not None}


# ---------------------------------------------------------------------- many documents


def chunk_modes(version: int) -> tuple[int, ...]:
    if version == FACTOR:
        return (100, 1000, 1024, 1025, 4000)
    return (1000, 1024, 1025, 1026) if version >= BALANCED_FROM else (1000, 1024, 1025)


@pytest.mark.parametrize("version", VERSIONS if amounts.long else CHANGED)
def test_segments_of_many_chunks_equal_gos(go: Programs, tmp_path: Path, version: int) -> None:
    given = chunked_set(3500)
    whole = documents(given)
    made = bench(go, version, tmp_path)
    pairs = [made.write(f"mode {mode}", given, whole, mode) for mode in chunk_modes(version)]
    small = [made.write(f"mode {mode}", given[::10], whole[::10], mode) for mode in (1, 2)]
    assert made.compare() == {}
    with Segment.open(pairs[0].ours) as segment:
        counts = dict(segment.terms("t"))
    assert counts == {b"all": 3500, b"edge": 1025, b"most": 2500, b"one": 1, b"thousand": 1000}
    first = Input(pairs[0].ours, 3500, tuple(range(0, 3500, 7)))
    made.merge("merged", [first, Input(small[0].theirs, 350), Input(pairs[-1].theirs, 3500, tuple(range(9, 3500)))])
    made.merge("whole", [Input(pair.theirs, 3500) for pair in pairs[:2]])
    made.merge("one", [Input(pairs[0].ours, 3500, (*range(1777), *range(1778, 3500)))])
    assert made.compare() == {}


# ---------------------------------------------------------------------- from version to version


def as_in(version: int, found: Json) -> Json:
    """What a dump is once the segment has been merged to a version."""
    # Where the norm is a length, a posting of frequency 0 has none.
    bare = version >= NORM_IS_LENGTH_FROM
    dicts = {
        name: terms
        and [
            [term, count, [[doc, freq, "+Inf" if bare and not freq else norm, at] for doc, freq, norm, at in postings]]
            for term, count, postings in terms
        ]
        for name, terms in found["dicts"].items()
    }
    # A field without terms loses its block of doc values, which holds none.
    changed = found | {
        "dicts": dicts,
        "dv_fields": [name for name in found["dv_fields"] if dicts[to_key(name.encode())]],
    }
    changed.pop("thesauri", None)
    return changed | ({"thesauri": unordered(found.get("thesauri", {}))} if version >= SYNONYMS_FROM else {})


def unordered(thesauri: Json) -> Json:
    """Synonyms in an order that is not that of their ids, which a merge gives anew."""
    return {
        name: {term: sorted(synonyms, key=repr) for term, synonyms in terms.items()} for name, terms in thesauri.items()
    }


@pytest.mark.parametrize("target", VERSIONS)
def test_go_reads_the_same_of_what_was_merged_to_another_version(go: Programs, tmp_path: Path, target: int) -> None:
    expected: dict[Path, Json] = {}
    for source in sorted({*VERSIONS} - {target}):
        common = min(source, target)  # what both can hold
        seeds = range(2000, 2000 + amounts.of(2, 6))
        paths = [tmp_path / f"{source}-{seed}" for seed in seeds]
        for seed, path in zip(seeds, paths, strict=True):
            write_segment(path, documents(document_set(min(common, 16), seed, mergeable=True)), source)
        answers = go(source).answers([dump_command(path) for path in paths])
        assert [answer for answer in answers if "error" in answer] == []
        for path in paths:
            expected[path] = json.loads(dumped(path))
    commands = []
    for path, found in expected.items():
        changed, again = path.with_suffix(".changed"), path.with_suffix(".again")
        merged([Input(path, found["count"])], changed, target)
        assert findings(changed) == []
        merge = {"op": "merge", "inputs": [{"path": str(changed)}], "out": str(again)}
        commands += [dump_command(changed), merge, dump_command(again)]
    answers = go(target).answers(commands)
    assert [answer for answer in answers if "error" in answer] == []
    for path, found in expected.items():
        # What Go merges of it, goes by the options that dvcodec gave to its fields.
        for made in (path.with_suffix(".changed"), path.with_suffix(".again")):
            read = json.loads(dumped(made))
            read |= {"thesauri": unordered(read["thesauri"])} if "thesauri" in read else {}
            assert read == as_in(target, found), made.name


# ---------------------------------------------------------------------- no documents


def write(path: Path, version: int, *given: Json) -> Input:
    return Input(path, write_segment(path, documents(given), version))


def without(one: Input, *drops: int) -> Input:
    return Input(one.path, one.count, drops)


def some_documents() -> list[Json]:
    return [
        {"id": "a", "fields": [{"name": "t", "value": "x y x", "opt": 15, "tv": True}]},
        {"id": "b", "fields": [{"name": "u", "value": "x", "opt": 3, "keyword": True}]},
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_go_reads_and_merges_segments_without_documents(go: Programs, tmp_path: Path, version: int) -> None:
    """From 16 on only ours: zapx puts the first field at address 0, and takes that for no field."""
    some = write(tmp_path / "some", version, *some_documents())
    left, fresh, joined = tmp_path / "left", tmp_path / "fresh", tmp_path / "joined"
    numbers = merged([without(some, 0, 1)], left, version)
    assert [one.tolist() for one in numbers] == [[-1, -1]]
    write_segment(fresh, [], version)
    program = go(version)
    if version < CHANCE_FROM:
        program.merge([(some.path, [0, 1])], tmp_path / "theirs")
        assert left.read_bytes() == (tmp_path / "theirs").read_bytes()
    for path, fields in ((left, ["_id", "t", "u"]), (fresh, ["_id"])):
        found = program.dump(path)
        assert (found["count"], found["fields"]) == (0, fields)
        with Segment.open(path) as segment:
            assert dump(segment) == found
        for inputs, expected in (
            ([path, some.path], [[], [0, 1]]),
            ([some.path, path], [[0, 1], []]),
        ):
            assert program.merge([(one, None) for one in inputs], joined) == expected
            assert program.dump(joined, true_counts=True) == program.dump(some.path)

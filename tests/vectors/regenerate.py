"""Rewrites the committed vectors with the reference implementations: `make vectors`.

The cases stand here, each with what it proves; the bytes come from those implementations alone. (interop/pylance has
its own script, for Lance.)
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from interop.driver import Go, Java, JavaPaimon, PyPaimon  # noqa: E402

Ranges = list[tuple[int, int]]


@dataclass(frozen=True)
class Case:
    """One row set: its name, its rows as ranges [start, stop), and what its bytes prove."""

    name: str
    ranges: Ranges
    proves: str

    def positions(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.concatenate([np.zeros(0, np.int64), *(np.arange(start, stop) for start, stop in self.ranges)])


def spaced(count: int, step: int, length: int = 1, start: int = 0) -> Ranges:
    """`count` ranges of `length` rows, one every `step` rows."""
    return [(start + i * step, start + i * step + length) for i in range(count)]


CASES = [
    Case("empty", [], "a vector without rows is 20 bytes: length, magic, count 0, CRC"),
    Case("one-row", [(0, 1)], "the smallest array container"),
    Case("alternating", spaced(5, 2, 1, 1), "an array container"),
    Case("run", [(0, 10)], "a run container, no offset table below 4 containers"),
    Case("tie-array", [(0, 3)], "c = 2r + 1: array and runs are as large, the array stays"),
    Case("tie-run", [(0, 4)], "c = 2r + 2: the runs are smaller"),
    Case("ties-many", [*spaced(300, 9, 2), (60_000, 60_001)], "c = 2r - 1 with 301 runs: the array stays"),
    Case("array-largest", spaced(4096, 2), "4096 values are an array of 8192 bytes"),
    Case("bitset-smallest", spaced(4097, 2), "4097 values are a bitset"),
    Case("bitset-to-runs", spaced(2047, 32, 16), "2047 runs: 8190 bytes are smaller than a bitset"),
    Case("bitset-stays", spaced(2048, 32, 16), "2048 runs: 8194 bytes are larger than a bitset"),
    Case("full", [(0, 65_536)], "65,536 rows in one run"),
    Case("four-runs", spaced(4, 65_536, 100), "run containers with an offset table, from 4 containers on"),
    Case("mixed", [(5, 8), *spaced(5000, 3, 1, 65_536), (131_072, 190_000)], "array, bitset and run in one bitmap"),
    Case("gap-keys", [(5, 6), ((3 << 32) + 7, (3 << 32) + 8)], "keys 1 and 2 are written as empty bitmaps"),
    Case("border-31", [(2**31 - 2, 2**31 + 2)], "positions around 2**31 are unsigned"),
    Case("border-32", [(2**32 - 2, 2**32 + 2)], "positions around 2**32 fall into two bitmaps"),
]
FILES = {"one": 1, "three": 3, "forty": 40}

README = """# {title}
Written by {producer}, through `interop/`; `make vectors` rewrites these files.

`manifest.json` lists for each file its rows, as ranges from start to the row after the last, and what the file proves.

{limits}
"""


def write(folder: Path, readme: str, manifest: list[dict[str, object]]) -> None:
    (folder / "README.md").write_text(readme)
    lines = ",\n".join(" " + json.dumps(entry, separators=(",", ":")) for entry in manifest)
    (folder / "manifest.json").write_text(f"[\n{lines}\n]\n")


def entries(suffix: str) -> list[dict[str, object]]:
    return [{"file": case.name + suffix, "proves": case.proves, "ranges": case.ranges} for case in CASES]


def fresh(*parts: str) -> Path:
    folder = HERE.joinpath(*parts)
    for old in folder.parent.glob(parts[-1].rpartition("-")[0] + "-*"):
        shutil.rmtree(old)
    folder.mkdir(parents=True)
    return folder


def iceberg(java: Java, scratch: Path, version: str) -> None:
    folder = fresh("iceberg", f"java-{version}")
    manifest = entries(".dv")
    for case, blob in zip(CASES, java.encode("iceberg", [case.positions() for case in CASES]), strict=True):
        (folder / f"{case.name}.dv").write_bytes(blob)
    files = [
        {
            "name": name,
            "deletes": [
                {"data_file": f"s3://bucket/tbl/data/{i:05}.parquet", "positions": list(range(0, 10 * (i + 1), i + 1))}
                for i in range(count)
            ],
        }
        for name, count in FILES.items()
    ]
    (scratch / "cases.json").write_text(json.dumps(files))
    java.run("puffin-write", scratch / "cases.json", folder)
    for file in files:
        deletes = file["deletes"]
        assert isinstance(deletes, list)
        vectors = {delete["data_file"]: [(p, p + 1) for p in delete["positions"]] for delete in deletes}
        proves = f"a Puffin file of {len(vectors)} vectors: order, footer; NAME.json holds the manifest values"
        manifest.append({"file": f"{file['name']}.puffin", "proves": proves, "vectors": vectors})
    limits = (
        "Proves: `deletion-vector-v1` blobs of positions deleted one by one, and files of `BaseDVFileWriter`.\n"
        "Does not prove: range deletes, merges with older vectors (both may keep other containers), encryption, and\n"
        "keys so high that Java cannot write them, because it writes every lower key."
    )
    write(folder, README.format(title="Iceberg", producer=f"Apache Iceberg {version}", limits=limits), manifest)


def delta(java: Java, version: str) -> None:
    folder = fresh("delta", f"spark-{version}")
    for kind in ("portable", "native"):
        for case, payload in zip(CASES, java.encode(f"delta-{kind}", [c.positions() for c in CASES]), strict=True):
            (folder / f"{case.name}.{kind}").write_bytes(payload)
    limits = (
        "Proves: the bytes between the size field and the CRC of a vector file, or of an inline vector before Z85, as\n"
        "`RoaringBitmapArray` serializes them, in the portable and the native layout.\n"
        "Does not prove: the file around it (version byte, size, CRC), which `HadoopFileSystemDVStore` writes."
    )
    producer = f"Delta Spark {version}"
    write(
        folder,
        README.format(title="Delta", producer=producer, limits=limits),
        entries(".portable") + entries(".native"),
    )


def roaring(java: Java, version: str) -> None:
    folder = fresh("roaring", f"java-{version}")
    cases = [case.positions() for case in CASES]
    for case, data in zip(CASES, java.encode("roaring64", cases), strict=True):
        (folder / f"{case.name}.roaring64").write_bytes(data)
    limits = (
        "Proves: `Roaring64NavigableMap.serializePortable` after `runOptimize`: present keys only.\n"
        "Does not prove: the gap keys of deletion vectors."
    )
    producer = f"RoaringBitmap {version}"
    write(folder, README.format(title="Roaring", producer=producer, limits=limits), entries(".roaring64"))


def paimon_java(java: JavaPaimon, scratch: Path, version: str) -> None:
    folder = fresh("paimon", f"java-{version}")
    manifest: list[dict[str, object]] = []
    index_files = []
    for bits in (32, 64):
        chosen = [case for case in CASES if bits == 64 or not case.ranges or case.ranges[-1][1] <= 2**31]
        spec = {
            "name": f"index-{bits}",
            "bits": bits,
            "target_size": None,
            "vectors": [{"data_file": case.name, "ranges": case.ranges} for case in chosen],
        }
        (scratch / "cases.json").write_text(json.dumps([spec]))
        (written,) = java.run_json("index-write", scratch / "cases.json", folder)
        (file,) = written["files"]
        index_files.append(file)
        vectors = [
            meta | {"ranges": case.ranges, "proves": case.proves}
            for meta, case in zip(file["vectors"], chosen, strict=True)
        ]
        proves = f"an index file of {bits}-bit vectors, with the metadata of each"
        manifest.append({"file": file["file_name"], "proves": proves, "bits": bits, "vectors": vectors})
    ints = [0, -1, 2**31 - 1, -(2**31), 123456789]
    (scratch / "cases.json").write_text(json.dumps([{"name": "hashes", "ints": ints}]))
    (written,) = java.run_json("hash-write", scratch / "cases.json", folder)
    manifest.append({"file": written["file"]["file_name"], "proves": "big-endian, signed, in order", "hashes": ints})
    entries = [
        {"kind": "ADD", "partition": ["x1", 7], "bucket": i, "index_file": file} for i, file in enumerate(index_files)
    ]
    entries.append({"kind": "ADD", "partition": [], "bucket": 2, "index_file": written["file"]})
    case = {"name": "index-manifest", "compression": None, "bucket_mode": None, "previous": None, "entries": entries}
    (scratch / "cases.json").write_text(json.dumps([case]))
    (written,) = java.run_json("manifest-write", scratch / "cases.json", folder)
    proves = "the index manifest: nullable items, cardinalities, partitions as bytes, zstd"
    manifest.append({"file": written["file_name"], "proves": proves, "entries": written["entries"]})
    limits = (
        "Proves: vectors of positions added one by one, the index file and its metadata, the index manifest, the hash\n"
        "index.\n"
        "Does not prove: rolling, external paths, global indexes, whole tables."
    )
    write(folder, README.format(title="Paimon, Java", producer=f"Apache Paimon {version}", limits=limits), manifest)


def paimon_python(program: PyPaimon, version: str) -> None:
    folder = fresh("paimon", f"pypaimon-{version}")
    chosen = [case for case in CASES if not case.ranges or case.ranges[-1][1] <= 2**31]
    for case, data in zip(chosen, program.encode("", [case.positions() for case in chosen]), strict=True):
        (folder / f"{case.name}.dv").write_bytes(data)
    manifest: list[dict[str, object]] = [
        {"file": f"{case.name}.dv", "proves": f"without run containers: {case.proves}", "ranges": case.ranges}
        for case in chosen
    ]
    limits = (
        "Proves: 32-bit vectors in their frames, without run containers.\n"
        "Does not prove: index files, manifests, tables."
    )
    write(folder, README.format(title="Paimon, Python", producer=f"pypaimon {version}", limits=limits), manifest)


def zap(scratch: Path) -> None:
    """The documents, the merges and what they prove are those of the manifests that are there."""
    folder = HERE / "zap"
    known = {old: json.loads((old / "manifest.json").read_text()) for old in sorted(folder.glob("zapx-*"))}
    for old in (*known, folder / "dumps"):
        shutil.rmtree(old)
    (folder / "dumps").mkdir()
    for old, entries in known.items():
        version = "17_1" if old.name.startswith("zapx-17.1") else old.name[5:7]
        zap_version(Go(version, scratch), version, folder, entries)


def zap_version(program: Go, version: str, parent: Path, manifest: list[dict[str, Any]]) -> None:
    number = int(version[:2])
    release = program.versions()[f"github.com/blevesearch/zapx/v{number}"].removeprefix("v")
    dumps, folder = parent / "dumps", parent / f"zapx-{release}"
    folder.mkdir()
    for entry in manifest:
        file = folder / entry["file"]
        if "documents" in entry:
            documents = json.loads((folder / entry["documents"]).read_text())
            program.write(documents, file, chunk_mode=entry.get("chunk_mode"))
        else:
            inputs = [(folder / source["file"], source["drops"]) for source in entry["merge_of"]]
            entry["numbers"] = program.merge(inputs, file, chunk_mode=entry.get("chunk_mode"))
        file.chmod(0o644)
        dump = dumps / f"{file.stem}-{release}.json"
        program.ask("dump", path=file, out=dump, true_counts=True)
        # Most versions read the same: the first of them keeps its dump.
        for other in sorted(dumps.glob(f"{file.stem}-[0-9]*.json")):
            if other != dump and other.read_bytes() == dump.read_bytes():
                dump.unlink()
                dump = other
                break
        entry["dump"] = f"../dumps/{dump.name}"
    limits = (
        "Each entry names a dump of what zapx reads from the segment; those of merges also list the new document\n"
        "numbers by input and old number. `interop/go/README.md` describes dumps and documents.\n\n"
        "Proves: segments of this version, made of documents or merged, and what Go reads from them.\n"
        "Does not prove: vectors, encryption, chunks of more than 1024 documents"
        + ("; bytes, because Go writes some parts in random order." if number > 15 else ".")
    )
    readme = README.format(title=f"zap segments, version {number}", producer=f"zapx {release}", limits=limits)
    readme = readme.replace("its rows, as ranges from start to the row after the last,", "what it was made of,")
    write(folder, readme, manifest)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        java = Java(Path(scratch))
        versions = java.versions()
        iceberg(java, Path(scratch), versions["iceberg-core"])
        delta(java, versions["delta-spark_2.13"])
        roaring(java, versions["RoaringBitmap"])
        newest = JavaPaimon("newest", Path(scratch))
        paimon_java(newest, Path(scratch), newest.versions()["paimon-core"])
        zap(Path(scratch))
        program = PyPaimon(Path(scratch))
        paimon_python(program, program.versions()["pypaimon"])


if __name__ == "__main__":
    main()

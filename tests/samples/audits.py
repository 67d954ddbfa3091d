"""Audits of tables that were never written: what a report has to show, and names that it must not fall for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dvcodec import RowSet, iceberg
from dvcodec.io import open_source
from dvcodec.ops.convert import measure
from dvcodec.ops.read import read_vector, sniff_source
from dvcodec.tables.auditing import Audit, AuditCounts
from dvcodec.tables.model import DataFile, DeletionVector, SnapshotInfo, TableKind
from dvcodec.tables.snapshots.findings import Finding, Severity
from dvcodec.tables.snapshots.scanning import FileDeletes, Scan, density

INFO = SnapshotInfo(4_815_162_342, 1_790_000_000_000, "delete", 23)
ROOT = "s3://lake/warehouse/orders"
HOSTILE = (
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=document.title='owned'>",
    '"><svg onload="document.title=1">',
    "$title ${style} {{x}} %s &amp; &lt;b&gt;",
    "<!--<script>",
    "\u202egpj.exe\u202c \u2028line\u2029 \x1b[31mred\x07 \x00",
    "lone \udc80 surrogate",
    "]]><![CDATA[ javascript:alert(1)",
    "zażółć ☃ 50% #1?a=b&c=d",
    "constructor/__proto__",
)


def file_of(
    path: str,
    rows: RowSet,
    physical: int | None = 100_000,
    *,
    partition: str | None = None,
    errors: tuple[str, ...] = (),
    container: str = f"{ROOT}/data/deletes.puffin",
    offset: int = 4,
) -> FileDeletes:
    """A data file with one vector for `rows`, or none if there are no rows."""
    file = DataFile(path, path, physical, None if physical is None else physical * 61, partition)
    if not rows:
        return FileDeletes(file, density=density(rows, physical))
    blob = iceberg.encode(rows)
    with open_source(blob) as source:
        mix = measure(read_vector(source, sniff_source(source).vectors[0])).containers
    vector = DeletionVector("iceberg", path, container, container, offset, len(blob), rows.cardinality)
    if errors:
        return FileDeletes(file, (vector,), errors=errors, density=density(RowSet(), physical))
    return FileDeletes(file, (vector,), None, rows.cardinality, len(blob), mix, density(rows, physical))


def audit_of(
    *files: FileDeletes,
    findings: tuple[Finding, ...] = (),
    table: str = ROOT,
    kind: TableKind = TableKind.ICEBERG,
    info: SnapshotInfo = INFO,
) -> Audit:
    """What an audit of these data files returns."""
    vectors = [vector for file in files for vector in file.vectors]
    counts = AuditCounts(len(files), len(vectors), len({vector.location for vector in vectors}), None)
    return Audit(table, kind, info, findings, counts, Scan(table, kind, info, files, (), ()))


def small() -> Audit:
    """Three valid data files: one half deleted, one untouched, one without a live row."""
    half = RowSet.from_ranges([(i * 10_000, i * 10_000 + 5_000) for i in range(10)])
    return audit_of(
        file_of(f"{ROOT}/data/00000-a.parquet", half),
        file_of(f"{ROOT}/data/00001-b.parquet", RowSet()),
        file_of(f"{ROOT}/data/00002-c.parquet", RowSet.from_ranges([(0, 2_500)]), 2_500, offset=90),
    )


def large(count: int = 10_000, *, findings: tuple[Finding, ...] = ()) -> Audit:
    """Many partitioned data files with deletes of every shape; of every seventh, none."""
    random = np.random.default_rng(7)
    files = []
    for i in range(count):
        path = f"{ROOT}/data/day=2026-09-{i % 30 + 1:02d}/{i:05d}-{random.integers(1 << 40):010x}.parquet"
        physical = int(random.integers(20_000, 400_000))
        shape = i % 7
        middle = random.random() * physical
        if shape == 0:
            rows = RowSet()
        elif shape < 4:
            rows = RowSet(random.integers(0, physical, int(random.integers(1, 400) * shape**2)))
        elif shape == 4:
            rows = RowSet(np.clip(random.normal(middle, physical / 20, 3_000), 0, physical - 1).astype(np.int64))
        elif shape == 5:
            rows = RowSet.from_ranges([(int(middle / 2), int(middle / 2 + physical * random.random() * 0.4))])
        else:
            start = 0 if i % 21 == 6 else int(middle * 0.8)
            rows = RowSet.from_ranges([(start, physical)])
        files.append(
            file_of(
                path,
                rows,
                physical,
                partition=f"day=2026-09-{i % 30 + 1:02d}",
                container=f"{ROOT}/data/{i // 50:05d}-deletes.puffin",
                offset=4 + 60 * (i % 50),
            )
        )
    return audit_of(*files, findings=findings)


def some_findings(audit: Audit) -> tuple[Finding, ...]:
    """A finding of each severity and more of one, about the first vectors of an audit."""
    vector = next(vector for file in audit.scan.files for vector in file.vectors)
    crc = Finding("crc", Severity.ERROR, "CRC-32 of magic and bitmap", audit.info.id, vector.data_file, (vector,))
    gone = f"{ROOT}/data/gone.parquet"
    stale = Finding("gone-data-file", Severity.WARNING, "no data file of the snapshot", 1, gone, (vector, vector))
    orphans = (
        Finding("orphan-vector-file", Severity.INFO, "no snapshot needs it", path=f"{ROOT}/data/{i:05d}-old.puffin")
        for i in range(230)
    )
    placed = replace(crc, path=vector.path, offset=44, expected="0x947c060f (stored)", actual="0x0fd94a60 (computed)")
    return (placed, stale, *orphans)


def hostile() -> Audit:
    """Names, partitions, errors and messages that try to be markup, script, template or a word to the terminal."""
    files = []
    for i, text in enumerate(HOSTILE):
        rows = RowSet.from_ranges([(i, 50 + i)])
        errors = (f"{text} could not be read",) if i % 3 == 0 else ()
        files.append(file_of(f"{text}/{text}", rows, 1_000, partition=text, errors=errors, container=f"{text}.puffin"))
    findings = tuple(
        Finding(text, severity, text, 1, text, files[0].vectors, text, 3, text, text)
        for text in HOSTILE
        for severity in Severity
    )
    info = SnapshotInfo(-1, 1 << 80, HOSTILE[0])
    return audit_of(*files, findings=findings, table=f"s3://lake/{HOSTILE[0]}", info=info)

"""Folders of partitions, as Java calls them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dvcodec import Unsupported
from dvcodec.tables.paimon.metadata import SchemaField, TableSchema, parse_type
from dvcodec.tables.paimon.partition import PartitionSpec
from samples.paimon_table import encode_row

GOLDEN = Path(__file__).with_name("partitions.tsv")
"""Made with Paimon's library 1.4.2: type, serialized partition, and its folder with and without ``legacy-name``; ``-``
where that depends on the writer's machine."""


def spec(*columns: tuple[str, str], **options: str) -> PartitionSpec:
    fields = tuple(SchemaField(i, name, kind) for i, (name, kind) in enumerate(columns))
    given = {name.replace("_", "-").replace("--", "."): value for name, value in options.items()}
    return PartitionSpec(TableSchema("schema-0", 0, fields, tuple(n for n, _ in columns), (), given))


def test_folders_are_called_as_java_calls_them() -> None:
    lines = [line.split("\t") for line in GOLDEN.read_text(encoding="utf-8").split("\n") if line]
    legacy = {kind: spec(("c", kind)) for kind, *_ in lines}
    plain = {kind: spec(("c", kind), partition__legacy_name="false") for kind, *_ in lines}
    for kind, data, *folders in lines:
        for specs, folder in zip((legacy, plain), folders, strict=True):
            if folder == "-":  # it depends on the writer
                continue
            assert specs[kind].decode(bytes.fromhex(data), source="m").folder + "/" == folder
    assert len(lines) > 80


@pytest.mark.parametrize(
    ("kind", "legacy", "value"),
    [("BYTES", "true", b"x"), ("TIMESTAMP_LTZ(3)", "false", 0)],
)
def test_folder_that_depends_on_the_writer_is_not_guessed(kind: str, legacy: str, value: Any) -> None:
    found = spec(("c", kind), partition__legacy_name=legacy)
    with pytest.raises(Unsupported, match="folder of partition column c"):
        found.decode(encode_row([value], [parse_type(kind, source="", what="")]), source="m")


def test_several_columns_buckets_and_options() -> None:
    columns = (("day", "DATE"), ("a/b", "STRING"))
    kinds = [parse_type(kind, source="", what="") for _, kind in columns]
    found = spec(*columns, partition__default_name="none", data_file__path_directory="data/")
    partition = found.decode(encode_row([19000, None], kinds), source="m")
    assert (partition.folder, partition.text) == ("data/day=19000/a%2Fb=none", "day=2022-01-08/a/b=null")
    assert found.bucket_folder(partition, 3) == "data/day=19000/a%2Fb=none/bucket-3"
    assert found.bucket_folder(partition, -2) == "data/day=19000/a%2Fb=none/bucket-postpone"


def test_table_without_partitions() -> None:
    partition = spec().decode(bytes(12), source="m")
    assert (partition.values, partition.folder, partition.text) == ((), "", None)
    assert spec().bucket_folder(partition, 0) == "bucket-0"


@pytest.mark.parametrize("folder", ["/etc", "a/../../b", "..", "s3://elsewhere/x"])
def test_folder_for_data_files_outside_of_the_table_is_refused(folder: str) -> None:
    with pytest.raises(Unsupported, match=r"data-file\.path-directory"):
        spec(data_file__path_directory=folder)


def test_time_beyond_the_calendar_is_refused() -> None:
    kinds = [parse_type("TIMESTAMP(3)", source="", what="")]
    with pytest.raises(Unsupported, match="a year from 1 to 9999"):
        spec(("c", "TIMESTAMP(3)")).decode(encode_row([10**15 * 1_000_000], kinds), source="m")

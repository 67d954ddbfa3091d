"""Which tables are refused for what they need of a reader."""

from __future__ import annotations

import pytest

from cases import each
from dvcodec.core.errors import Unsupported
from dvcodec.tables.delta.actions import Metadata, Protocol
from dvcodec.tables.delta.protocol import (
    KNOWN,
    OF_COLUMNS,
    OF_WRITERS,
    check_protocol,
    declares_mapping,
    is_on,
    mapping_mode,
)


def protocol(version: int, *features: str) -> Protocol:
    return Protocol(version, features, "0.json, line 2")


def metadata(mode: str | None) -> Metadata:
    configuration = {} if mode is None else {"delta.columnMapping.mode": mode}
    return Metadata("{}", (), configuration, "parquet", "0.json, line 3")


def test_known() -> None:
    for version in (1, 2):
        check_protocol(protocol(version))
    check_protocol(protocol(3, *KNOWN, *OF_COLUMNS, *OF_WRITERS))


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview", "adaptiveMetadata-preview", "sorcery"])
def test_unknown_features_are_named(feature: str) -> None:
    with pytest.raises(Unsupported, match=rf"0\.json, line 2: protocol\.readerFeatures: .*found {feature}"):
        check_protocol(protocol(3, "deletionVectors", feature))


@each(("value", "on"), [("true", True), ("TRUE", True), ("false", False), (" true", False), ("", False), (None, False)])
def test_properties_are_true_as_delta_reads_them(value: str | None, on: bool) -> None:
    configuration = {} if value is None else {"x": value}
    assert is_on(Metadata("{}", (), configuration, "parquet", "0.json, line 3"), "x") is on


def test_newer_versions() -> None:
    with pytest.raises(Unsupported, match="at most 3, found 4"):
        check_protocol(protocol(4))


def test_column_mapping_holds_whatever_the_protocol_says() -> None:
    assert mapping_mode(protocol(1), metadata("name")) == "name"
    assert mapping_mode(protocol(3), metadata("name")) == "name"
    assert mapping_mode(protocol(1), metadata("path")) == "none"
    assert not declares_mapping(protocol(1))
    assert not declares_mapping(protocol(3))
    assert declares_mapping(protocol(2))
    assert declares_mapping(protocol(3, "columnMapping"))
    assert mapping_mode(protocol(2), metadata("name")) == "name"
    assert mapping_mode(protocol(3, "columnMapping"), metadata("id")) == "id"
    assert mapping_mode(protocol(3, "columnMapping"), metadata(None)) == "none"
    with pytest.raises(Unsupported, match=r"delta\.columnMapping\.mode: .*'path'"):
        mapping_mode(protocol(2), metadata("path"))

from __future__ import annotations

import dataclasses

import pytest

from dvcodec.core.location import DvLocation


def test_what_a_container_does_not_say_is_none() -> None:
    location = DvLocation("delta", "dv.bin", offset=1, size=46, cardinality=5)
    assert location.data_file is None
    assert location.file_size is None


def test_locations_are_values() -> None:
    location = DvLocation("iceberg", "dv.puffin", 4, 50, 5, "a.parquet", 300)
    assert location == dataclasses.replace(location)
    assert location != dataclasses.replace(location, offset=5)
    assert len({location, dataclasses.replace(location)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        location.offset = 5  # type: ignore[misc]  # that is the point

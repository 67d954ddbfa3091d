from __future__ import annotations

from dvcodec.puffin import BlobMetadata, Footer


def test_footers_and_blobs_are_values() -> None:
    blob = BlobMetadata("t", (1,), 2, 3, 4, 5, None, {"a": "b"}, {"x": [1]})
    same = BlobMetadata("t", (1,), 2, 3, 4, 5, None, {"a": "b"}, {"x": [1]})
    first = Footer((blob,), {"c": "d"}, unknown={"y": {}})
    second = Footer((same,), {"c": "d"}, unknown={"y": {}})
    assert (first, hash(first)) == (second, hash(second))
    assert first != Footer((blob,), {"c": "e"}, unknown={"y": {}})

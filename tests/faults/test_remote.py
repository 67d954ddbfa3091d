"""A store that goes away midway: an error that names the URL; of several objects, none is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from dvcodec import RowSet, paimon
from dvcodec.tables import open_table
from dvcodec.tables.convert import convert_table
from faults.writers import VECTORS
from samples import delta_log


class GoneError(Exception):
    """As stores have it: no OSError."""


class Vanishing(MemoryFileSystem):  # type: ignore[misc]
    """A store that takes some objects, and then none any more."""

    protocol = "dvvanish"
    cachable = False
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    takes: ClassVar[int] = 0
    torn: ClassVar[bool] = False
    """Whether half of an object is there when the connection falls."""
    removes: ClassVar[bool] = True

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("dvvanish://").strip("/")

    def pipe_file(self, path: str, value: bytes, **options: Any) -> None:
        if self.takes == 0:
            if self.torn:
                super().pipe_file(path, value[: len(value) // 2], **options)
            raise GoneError("the connection fell")
        type(self).takes -= 1
        super().pipe_file(path, value, **options)

    def rm_file(self, path: str) -> None:
        if not self.removes:
            raise GoneError("the connection fell")
        super().rm_file(path)


fsspec.register_implementation("dvvanish", Vanishing, clobber=True)
URL = "dvvanish://lake"
GONE = r"dvvanish://lake/.+: cannot write: failed: the connection fell"


@pytest.fixture(autouse=True)
def store() -> Iterator[type[Vanishing]]:
    Vanishing.store.clear()
    Vanishing.takes, Vanishing.torn, Vanishing.removes = 0, False, True
    yield Vanishing
    Vanishing.store.clear()


def index_files(_: Path) -> object:
    return paimon.write_index_files(URL, VECTORS | {"third": RowSet([1])}, target_size=1000)


def converted(folder: Path) -> object:
    return convert_table(open_table(str(delta_log.restored_table(folder / "t"))), "paimon64", URL)


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize(("write_several", "objects"), [(index_files, 3), (converted, 2)], ids=["paimon", "convert"])
def test_several_objects(
    write_several: Callable[[Path], object], objects: int, torn: bool, tmp_path: Path, store: type[Vanishing]
) -> None:
    for taken in range(objects):
        store.takes, store.torn = taken, torn
        folder = tmp_path / str(taken)
        folder.mkdir()
        with pytest.raises(OSError, match=GONE):
            write_several(folder)
        assert store.takes == 0
        assert not store.store, "objects were left"
    store.takes = objects
    (tmp_path / "whole").mkdir()
    write_several(tmp_path / "whole")
    assert len(store.store) == objects

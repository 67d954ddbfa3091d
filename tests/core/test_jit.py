"""Kernels without numba, or with one that does not work: then NumPy does the work."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cases import each
from dvcodec.core import jit

ENOUGH = jit._WORTH


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has run no kernel."""
    for name, value in (("_seen", 0), ("_is_usable", True)):
        monkeypatch.setattr(jit, name, value)
    monkeypatch.setattr(jit, "_numba", jit._numba.__wrapped__)


def double(number: int) -> int:
    return 2 * number


def compiled(function: Any, **options: Any) -> Any:
    assert options == {"cache": True, "nogil": True}
    return lambda *arguments: function(*arguments) + 1


def fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError("cannot cache function: no locator available")


def made(function: Any) -> Any:
    """A numba that makes this function of every kernel."""
    return SimpleNamespace(njit=lambda *_, **__: function)


def test_numba_is_loaded_when_there_is_enough_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace(njit=compiled))
    assert [jit.worth(size) for size in (1000, ENOUGH // 2, ENOUGH // 2, 0)] == [False, False, True, True]
    kernel = jit.Kernel(double)
    assert kernel(3) == 6
    assert kernel.run(3) == 7
    assert jit.worth(0)


@each("error", [ImportError, AttributeError, OSError, SystemError])
def test_one_that_cannot_be_imported_is_not_used(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Any:
        raise error(name)

    monkeypatch.setattr(jit, "import_module", broken)
    assert not jit.worth(ENOUGH)


@pytest.mark.parametrize("module", [SimpleNamespace(), SimpleNamespace(njit=fails), made(fails)])
def test_one_that_fails_is_not_used_again(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", module)
    assert jit.worth(ENOUGH)
    assert jit.Kernel(double).run(3) is None
    assert not jit.worth(ENOUGH)


def test_lack_of_memory_is_no_failure_of_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setitem(sys.modules, "numba", made(lacking))
    with pytest.raises(MemoryError):
        jit.Kernel(double).run(3)
    assert jit.worth(ENOUGH)


def test_views_are_frozen_and_contiguous() -> None:
    data = np.arange(10)
    for given in (data, data[::2]):
        found = jit.frozen(given)
        assert found.tolist() == given.tolist()
        assert found.flags.c_contiguous
        assert not found.flags.writeable
    assert data.flags.writeable


def test_kernels_run_compiled_and_call_each_other() -> None:
    pytest.importorskip("numba")
    kernels = importlib.import_module("dvcodec.zap.kernels")
    assert jit.worth(ENOUGH)
    data = jit.frozen(np.array([0x96, 0x01], np.uint8))
    assert kernels.varint.run(data, 0, 2) == kernels.varint(data, 0, 2) == (150, 2)
    assert kernels.chunk_data.run(data, 0, 150) == kernels.chunk_data(data, 0, 150) == (-1, -1)

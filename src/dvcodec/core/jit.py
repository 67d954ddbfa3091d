"""Loops that run compiled if numba is installed (extra ``jit``), where NumPy needs many passes.

A kernel is a plain function of arrays and numbers, so that tests run it without numba too. It checks what the NumPy
path checks, but words no errors: it returns that something is odd, and its caller takes the NumPy path, which supports
it or raises the error. In a kernel, numbers from arrays are converted to int64 or uint64 explicitly, because numba
makes floats of both together; and every index is checked before it is used, because numba does not.

If numba is missing or fails, whatever the reason, the process goes on with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from importlib import import_module
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

R = TypeVar("R")

_WORTH = 1 << 22
"""Bytes of work in a process from which on loading numba and the kernels pays: it takes up to a second."""
_seen = 0
_is_usable = True


@cache
def _numba() -> Any:
    """Import numba; None if it is not installed, or not for this Python or NumPy."""
    try:
        return import_module("numba")
    except Exception:  # noqa: BLE001  (a broken one raises anything)
        return None


def worth(size: int) -> bool:
    """Whether to run kernels, now that so many bytes come up: numba is usable, and loaded or worth loading."""
    global _seen  # noqa: PLW0603  (a state of the process)
    if _seen < _WORTH:
        _seen += size
    return _seen >= _WORTH and _is_usable and _numba() is not None


class Kernel(Generic[R]):
    """A loop; calling it runs it as Python.

    Args:
        python: the function. Other kernels that it calls are compiled with it.
    """

    def __init__(self, python: Callable[..., R]) -> None:
        self._python = python
        self.__doc__ = python.__doc__

    def __call__(self, *arguments: Any) -> R:
        """Run it as Python."""
        return self._python(*arguments)

    @cached_property
    def compiled(self) -> Any:
        """The compiled function. It takes seconds to compile, so without a folder for the cache: a `RuntimeError`."""
        return _numba().njit(self._python, cache=True, nogil=True)

    @property
    def _numba_type_(self) -> Any:
        """What numba takes this object for where another kernel calls it."""
        return self.compiled._numba_type_

    def run(self, *arguments: Any) -> R | None:
        """Run it compiled; None if numba fails, which this process then does without."""
        global _is_usable  # noqa: PLW0603  (a state of the process)
        try:
            found: R = self.compiled(*arguments)
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001  (kernels raise nothing, and numba anything)
            _is_usable = False
            return None
        return found


def frozen(data: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only, contiguous view of an array, or a copy: numba compiles a kernel again for each kind."""
    view: NDArray[Any] = np.ascontiguousarray(data).view()
    view.flags.writeable = False
    return view

"""Run functions over Arrow batches in Spark's Python workers, at a lower cost per task and in less memory.

Spark collects garbage in a worker after every task, and each time Python walks all objects of all imported modules: 20
to 30 ms with dvcodec's, more than the rest of a small task. `settle` exempts them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

OverBatches: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_MORE_MODULES = 50
"""With so many new modules, the objects of this process are exempted again."""
_settled_modules = 0


def settle() -> None:
    """Exempt the objects that this process has now from garbage collection, if it has imported modules since.

    They are collected once before. Reference counting frees them as before; only a cycle of them that becomes garbage
    later is never freed.
    """
    global _settled_modules  # noqa: PLW0603  (a state of the process)
    if len(sys.modules) >= _settled_modules + _MORE_MODULES:
        gc.collect()
        gc.freeze()
        _settled_modules = len(sys.modules)


def release_memory() -> None:
    """Return freed memory to the system: the allocators of Arrow and NumPy would keep some 200 MB after a chunk."""
    pa.default_memory_pool().release_unused()
    pa.system_memory_pool().release_unused()  # NumPy's, too


@dataclass(frozen=True, slots=True)
class _Settled:
    """A function over batches; the class is importable, so that it can be pickled."""

    function: OverBatches

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        release_memory()  # what an earlier task has left
        return self.function(batches)


def settled(function: OverBatches) -> OverBatches:
    """Return the function for ``mapInArrow``, so that it settles its worker first."""
    return _Settled(function)

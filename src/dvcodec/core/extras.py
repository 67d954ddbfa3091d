"""Optional dependencies, imported on first use."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dvcodec.core.errors import MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq
    from pyarrow import fs, types

__all__ = ["LazyModule", "ds", "fs", "pa", "pc", "pq", "require_extra", "types"]


class LazyModule:
    """Stands for an optional module, and imports it when one of its names is used.

    Public functions call `require_extra` first; the error here is Python's own.
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.modules.get(self._module) or import_module(self._module), name)


if not TYPE_CHECKING:
    pa, pc, ds, pq = map(LazyModule, ("pyarrow", "pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet"))
    fs, types = map(LazyModule, ("pyarrow.fs", "pyarrow.types"))


def require_extra(module: str, extra: str, package: str | None = None) -> Any:
    """Import an optional module.

    Args:
        module: its import name, with dots for a submodule.
        extra: the extra of dvcodec that installs it.
        package: its name in the error; by default the top-level package of `module`.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        raise MissingExtra(package or module.partition(".")[0], extra) from None

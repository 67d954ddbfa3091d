"""Optional dependencies, imported on first use."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dvcodec.core.errors import MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as csv_reader
    import pyarrow.dataset as ds
    import pyarrow.json as json_reader
    import pyarrow.parquet as pq
    from pyarrow import fs, types

__all__ = ["LazyModule", "csv_reader", "ds", "fs", "json_reader", "pa", "pc", "pq", "require_extra", "types"]


class LazyModule:
    """Stands for an optional module, and imports it when one of its names is used: then it may be a `MissingExtra`."""

    def __init__(self, module: str, extra: str) -> None:
        self._module = module
        self._extra = extra
        self._found: Any = None

    def __getattr__(self, name: str) -> Any:
        # Not what `sys.modules` has at first: while another thread imports it, only `import_module` waits until it is
        # complete. Later, it takes ten times as long as this.
        if self._found is None or sys.modules.get(self._module) is not self._found:
            self._found = require_extra(self._module, self._extra)
        return getattr(self._found, name)


if not TYPE_CHECKING:
    pa = LazyModule("pyarrow", "arrow")
    pc, csv_reader, ds, pq, fs, json_reader, types = (
        LazyModule(f"pyarrow.{name}", "arrow")
        for name in ("compute", "csv", "dataset", "parquet", "fs", "json", "types")
    )


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
    except ImportError as error:
        top = module.partition(".")[0]
        lacking = (error.name or top).partition(".")[0]  # which may be one that an installed package needs
        raise MissingExtra((package or top) if lacking == top else lacking, extra) from None

"""Optional dependencies, imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dvcodec.core.errors import MissingExtra

__all__ = ["require_extra"]


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

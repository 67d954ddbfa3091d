"""The two layouts of Delta vectors, and their magics."""

from __future__ import annotations

from dvcodec.core.frame import Magic
from dvcodec.core.usage import check_choice

__all__ = ["MAGICS", "magic_of"]

MAGICS = (Magic.PORTABLE64, Magic.NATIVE64)
_LAYOUTS = {"portable": Magic.PORTABLE64, "native": Magic.NATIVE64}


def magic_of(layout: str) -> Magic:
    """Return the magic of a layout by its name, ``portable`` or ``native``.

    Raises:
        UsageError: another name.
    """
    check_choice(layout, _LAYOUTS, "layout")
    return _LAYOUTS[layout]

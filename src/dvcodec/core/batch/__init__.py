"""Many framed vectors at once: a table has one a data file, and most hold a handful of rows.

One NumPy pass over all of them takes the place of a call for each: `walk` finds the containers of all, `containers` is
the table of them, `decode` checks and expands, `load` makes row sets, and `encode` is the way back. What is not plain
(large, or of several bitmaps, or wrong) goes through `core.vector` one by one, which says what is wrong.
"""

from dvcodec.core.batch.decode import Survey, expand, survey
from dvcodec.core.batch.encode import encode
from dvcodec.core.batch.load import load

__all__ = ["Survey", "encode", "expand", "load", "survey"]

"""Many framed vectors at once: a table has one per data file, most with a few rows.

A NumPy pass over all of them replaces a call for each: `walk` finds the containers, `containers` is the table of them,
`decode` checks and expands, `load` builds row sets, `encode` writes vectors. Large, multi-bitmap or corrupt vectors
fall back to `core.vector`, one at a time.
"""

from dvcodec.core.batch.decode import Survey, expand, survey
from dvcodec.core.batch.encode import encode
from dvcodec.core.batch.load import load

__all__ = ["Survey", "encode", "expand", "load", "survey"]

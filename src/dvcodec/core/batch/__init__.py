"""Many framed vectors at once: a table has one per data file, most with a few rows.

A NumPy pass over all of them replaces a call for each: `walk` makes a table of all containers,
`decode` checks, expands and builds row sets, `encode` writes vectors. Large, multi-bitmap or corrupt vectors
fall back to `core.vector`, one at a time.
"""

from dvcodec.core.batch.decode import Survey, expand, load, survey
from dvcodec.core.batch.encode import encode

__all__ = ["Survey", "encode", "expand", "load", "survey"]

"""How much the longest tests try: what a gate has time for, or all of it (`make interop-long`)."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("DVCODEC_LONG"))
ROW_SETS = 10_000 if LONG else 2_500
"""Sets of rows that Java and pypaimon encode."""
DOCUMENT_SETS = 200 if LONG else 60
"""Segments of random documents that Go writes, for each version."""
STATEMENTS = 200 if LONG else 60
"""Random predicates, and random deletes on a table of each format."""
KILLS = 250 if LONG else 10
"""Times that a writer is killed, for each format."""
MERGES = (50, 30) if LONG else (20, 12)
"""Merges of random segments, and of what they made."""

"""Conversion of a table's deletion vectors: what another format's metadata has to say for the same deleted rows.

`plan` finds which vectors hold for which data file, and refuses what cannot be converted; `record` spells a vector for
a target's commit; `write` reads, verifies and writes.
"""

from dvcodec.tables.convert.read import ConvertedVector, How
from dvcodec.tables.convert.record import TARGETS, Target
from dvcodec.tables.convert.write import ENTRIES, Conversion, convert_table

__all__ = ["ENTRIES", "TARGETS", "Conversion", "ConvertedVector", "How", "Target", "convert_table"]

"""Conversion of a table's deletion vectors to another format: vector files, and values for a commit.

`plan` finds which vectors apply to which data file, and refuses what cannot be converted; `record` builds the values
for a target's commit; `read` verifies the vectors, and `write` writes them. `copy_deletes` commits to a table instead.
"""

from dvcodec.tables.convert.read import ConvertedVector, How
from dvcodec.tables.convert.record import TARGETS, Target
from dvcodec.tables.convert.write import ENTRIES, Conversion, convert_table, copy_deletes

__all__ = ["ENTRIES", "TARGETS", "Conversion", "ConvertedVector", "How", "Target", "convert_table", "copy_deletes"]

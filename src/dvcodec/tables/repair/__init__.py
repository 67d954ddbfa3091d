"""What would mend the findings of an audit: a plan, and the vector files that it needs. The table is never written.

`plan` says what to do and what cannot be done, `write` writes new files of vectors beside the table for a commit.
"""

from dvcodec.tables.repair.actions import RepairAction, RepairPlan
from dvcodec.tables.repair.plan import repair_plan
from dvcodec.tables.repair.write import write

__all__ = ["RepairAction", "RepairPlan", "repair_plan", "write"]

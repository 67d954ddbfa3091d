"""Repair the findings of an audit: a plan, and the vector files that it needs. The table is never written.

`repair_plan` lists the actions and what none of them mends, `write` writes new vector files beside the table for a
commit.
"""

from dvcodec.tables.repair.actions import RepairAction, RepairPlan
from dvcodec.tables.repair.plan import repair_plan
from dvcodec.tables.repair.write import write

__all__ = ["RepairAction", "RepairPlan", "repair_plan", "write"]

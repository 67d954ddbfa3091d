"""Repair the findings of an audit: a plan, the vector files that it needs, and its commit.

`repair_plan` lists the actions, and the findings that none of them fixes. `commit_repair` commits the actions that need
nothing but new vectors; `write` writes new vector files outside of the table, for a commit by others.
"""

from dvcodec.tables.repair.actions import RepairAction, RepairPlan
from dvcodec.tables.repair.commit import Repaired, commit_repair
from dvcodec.tables.repair.plan import repair_plan
from dvcodec.tables.repair.write import write

__all__ = ["RepairAction", "RepairPlan", "Repaired", "commit_repair", "repair_plan", "write"]

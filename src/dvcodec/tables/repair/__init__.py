"""Repair the findings of an audit: a plan and its commit.

`repair_plan` lists the actions, and the findings that none of them fixes. `commit_repair` commits the actions that need
nothing but new vectors.
"""

from dvcodec.tables.repair.commit import Repaired, commit_repair
from dvcodec.tables.repair.plan import RepairAction, RepairPlan, repair_plan

__all__ = ["RepairAction", "RepairPlan", "Repaired", "commit_repair", "repair_plan"]

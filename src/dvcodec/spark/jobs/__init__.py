"""Jobs over vectors: DataFrames in, a DataFrame out; lazy unless a job says otherwise.

A *vectors* DataFrame has ``data_file string`` and ``dv binary``, one row per data file; see `dvcodec.spark`.
"""

from __future__ import annotations

# Imported eagerly: a job and its module share a name, and a later import of the module would replace the job.
from dvcodec.spark.jobs.apply import apply, deleted, unmatched
from dvcodec.spark.jobs.audit import audit, compaction_candidates, quarantine
from dvcodec.spark.jobs.build import build_vectors, positions
from dvcodec.spark.jobs.change import convert, diff, merge
from dvcodec.spark.jobs.delete import DeleteBatches, delete, delete_batches
from dvcodec.spark.jobs.explode import explode, ranges
from dvcodec.spark.jobs.stored import read_vectors, write_vectors

__all__ = [
    "DeleteBatches",
    "apply",
    "audit",
    "build_vectors",
    "compaction_candidates",
    "convert",
    "delete",
    "delete_batches",
    "deleted",
    "diff",
    "explode",
    "merge",
    "positions",
    "quarantine",
    "ranges",
    "read_vectors",
    "unmatched",
    "write_vectors",
]

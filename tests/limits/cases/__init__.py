"""Adversarial inputs for every decoder: small ones that claim, or unpack to, a lot.

A module for each format ends in its table, `CASES`: entry point, inputs, expected error. `limits.making` has the rows.
"""

from __future__ import annotations

from limits.cases import avro, delta, iceberg, lance, paimon, parquet, puffin, scorch, vectors, zap
from limits.making import Case

_MODULES = (vectors, puffin, iceberg, delta, paimon, avro, lance, zap, scorch, parquet)
CASES: dict[str, Case] = {case.name: case for module in _MODULES for case in module.CASES}
assert len(CASES) == sum(len(module.CASES) for module in _MODULES), "two cases of one name"

"""Adversarial inputs for every decoder, a module for each format: little that promises, or unpacks to, much.

Every module here is imported, which registers its cases; `limits.making` says how one is made.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from limits.making import ACCEPTED, BOUNDS, CASES, MEMORY

__all__ = ["ACCEPTED", "BOUNDS", "CASES", "MEMORY"]

for _module in iter_modules(__path__, f"{__name__}."):
    import_module(_module.name)

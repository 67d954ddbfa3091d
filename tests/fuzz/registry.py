"""All targets by name, the most important first. A module is imported when one of its targets is asked for."""

from __future__ import annotations

from importlib import import_module

from fuzz.target import Target

DECODERS = {
    "frames": (
        "iceberg", "delta", "paimon-32", "batch", "roaring-32", "roaring-64", "delta-inline", "delta-bin",
        "paimon-index",
    ),
    "containers": (
        "puffin-footer", "puffin", "sniff", "descriptor", "mumbling", "dialects", "index-manifest", "avro", "compress",
    ),
    "lance": (
        "lance-row-ids", "lance-versions", "lance-arrow", "lance-addresses", "lance-manifest", "lance-transaction",
    ),
    "zap": (
        "zap-segment", "zap-postings", "zap-stored", "zap-doc-values", "zap-sections", "zap-fields", "zap-footer",
        "vellum", "zap-merge",
    ),
    "tables": (
        "iceberg-metadata", "iceberg-manifest-list", "iceberg-manifest", "position-deletes", "avro-rows", "delta-log",
        "paimon-snapshot", "paimon-schema", "paimon-manifest", "paimon-row", "scorch-root",
    ),
    "whole": ("parquet-footer", "table-iceberg", "table-delta", "table-paimon", "table-lance", "table-scorch"),
}  # fmt: skip
"""Module -> its targets."""
PEERS = {
    "bitmaps": ("pyroaring-32", "pyroaring-64", "pyiceberg-puffin", "pypaimon-32"),
    "segments": ("zapx-segment",),
}
"""Module -> its differential targets; each wants its peer installed."""


def load(name: str) -> Target:
    """Import a target.

    Raises:
        KeyError: there is none of that name.
    """
    for package, modules in (("targets", DECODERS), ("peers", PEERS)):
        for module, known in modules.items():
            if name in known:
                found: tuple[Target, ...] = import_module(f"fuzz.{package}.{module}").TARGETS
                return next(target for target in found if target.name == name)
    raise KeyError(name)


def names() -> list[str]:
    """All of them, decoders first."""
    return [name for modules in (DECODERS, PEERS) for found in modules.values() for name in found]

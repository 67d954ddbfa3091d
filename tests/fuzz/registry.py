"""All targets by name, the most important first. A module is imported when one of its targets is asked for."""

from __future__ import annotations

from importlib import import_module

from fuzz.target import Target

DECODERS = {
    "frames": (
        "iceberg", "delta", "paimon-32", "batch", "roaring-32", "roaring-64", "delta-inline", "delta-bin",
        "paimon-index",
    ),
    "containers": ("puffin-footer", "puffin", "sniff", "mumbling", "dialects", "index-manifest", "avro"),
    "lance": ("lance-row-ids", "lance-arrow", "lance-addresses", "lance-manifest"),
    "zap": ("zap-segment", "zap-postings", "zap-stored", "zap-doc-values", "vellum", "zap-merge"),
    "tables": (
        "iceberg-metadata", "iceberg-manifest", "position-deletes", "avro-rows", "delta-log", "paimon-schema",
        "paimon-manifest",
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

"""`dvcodec zap`: commands on search segments."""

from importlib import import_module

for commands in ("inspect", "merge"):  # the order of the help page
    import_module(f"dvcodec.cli.zap.{commands}")

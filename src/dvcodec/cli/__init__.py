"""The command line: `dvcodec` (extra ``cli``)."""

from __future__ import annotations

import os
import sys
from importlib import import_module

__all__ = ["main"]


def main() -> None:
    """Run the command line; exit code 0 is fine, 1 findings, 2 unreadable or wrong usage."""
    try:
        from dvcodec.cli.app import app

        for commands in ("look", "check", "change"):  # the order of the help page
            import_module(f"dvcodec.cli.{commands}")
    except ImportError as err:
        if err.name in ("typer", "rich"):
            print("dvcodec: typer and rich are needed here: pip install 'dvcodec[cli]'", file=sys.stderr)
            sys.exit(2)
        raise
    from dvcodec.core.errors import DvcodecError

    try:
        app()
    except BrokenPipeError:  # `dvcodec positions FILE | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except DvcodecError as err:
        print(f"dvcodec: {err}", file=sys.stderr)
        sys.exit(2)
    except OSError as err:
        print(f"dvcodec: {err.filename or ''}{': ' if err.filename else ''}{err.strerror or err}", file=sys.stderr)
        sys.exit(2)

"""The command line: `dvcodec` (extra ``cli``)."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dvcodec.core.interrupts import is_held_back

__all__ = ["main"]

_SECONDS_TO_CLEAN_UP = 2.0
_SECONDS_TO_LOOK = 0.05
"""After Ctrl-C: how often to look whether a commit is settled."""


def main() -> None:
    """Run the command line; exit code 0 is fine, 1 findings, 2 unreadable or wrong usage, 130 interrupted."""
    if sys.stdout is None:  # closed by the caller: `>&-`
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    code = 2
    try:
        with _ended_by_interrupt():
            code = _run(sys.argv[1:])
            sys.stdout.flush()
    except BrokenPipeError:  # `dvcodec positions FILE | head`
        _silence()
        code = 0
    except OSError as err:
        if code != 2:  # else it has been reported
            print(f"dvcodec: standard output: {err.strerror}", file=sys.stderr)
        _silence()
        code = 2
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


@contextmanager
def _ended_by_interrupt() -> Iterator[None]:
    """End the process two seconds after Ctrl-C, even if threads wait for a server or for a retry.

    Python's own handler waits for all threads. Within those seconds the command may clean up. While a commit holds
    Ctrl-C back, they begin when it is settled, or with a second Ctrl-C.
    """
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        yield
        return
    signals, written = os.pipe()
    os.set_blocking(written, False)
    before = signal.set_wakeup_fd(written, warn_on_full_buffer=False)

    def interrupted() -> bool | None:
        """Wait for a signal; return whether it is Ctrl-C, None at the end of the block."""
        received = os.read(signals, 1)
        return received[0] == signal.SIGINT if received else None

    def wait() -> None:
        while not (found := interrupted()):
            if found is None:
                os.close(signals)
                return
        again, is_waiting = False, True
        while is_waiting:
            while is_held_back() and not again:
                coming = select.select([signals], [], [], _SECONDS_TO_LOOK)[0]
                again = bool(coming) and bool(interrupted())
            time.sleep(_SECONDS_TO_CLEAN_UP)
            is_waiting = is_held_back() and not again  # another commit, meanwhile
        os.close(signals)
        os._exit(130)

    threading.Thread(target=wait, daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(written)


def _silence() -> None:
    """Discard buffered output, so that the interpreter does not fail to flush it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _completed() -> list[str]:
    """Return the words that a shell asks typer to complete, without the program; [] if it asks for nothing."""
    return (os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")).split()[1:]


def _run(arguments: list[str]) -> int:
    try:
        import rich  # noqa: F401
        import typer

        from dvcodec.cli.app import build
        from dvcodec.cli.common import complain, speak_any_encoding

        words = arguments or _completed()
        app = build(next((given for given in words if not given.startswith("-")), ""))
    except ImportError as err:
        if (err.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        print("dvcodec: the command line needs typer and rich: pip install 'dvcodec[cli]'", file=sys.stderr)
        return 2
    from dvcodec.core.errors import DvcodecError

    speak_any_encoding()
    try:
        code = app(arguments or ["--help"], prog_name="dvcodec", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        raise KeyboardInterrupt from None
    except SystemExit as err:
        if isinstance(err.__context__, BrokenPipeError):  # typer and rich turn it into exit code 1
            raise err.__context__ from None
        raise
    except BrokenPipeError:
        raise
    except (DvcodecError, OSError) as err:
        complain(err)
        return 2
    except MemoryError:
        complain("not enough memory")
        return 2
    except Exception as err:
        if not hasattr(err, "format_message"):  # the base class of these is not public in every version of typer
            raise
        context = getattr(err, "ctx", None)
        help_page = f"{context.command_path if context else 'dvcodec'} --help"
        message = " ".join(err.format_message().split())
        complain(f"{message.rstrip('.')} (see {help_page})")
        return 2
    return code or 0 if arguments else 2

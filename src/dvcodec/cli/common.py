"""Common to all commands: options of object stores, limits and logging; standard output and standard error."""

from __future__ import annotations

import codecs
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from contextvars import ContextVar
from dataclasses import is_dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dvcodec.core.errors import UsageError
from dvcodec.core.text import BARS, NONE_HERE, NOTHING, LogFormatter, plain

if TYPE_CHECKING:
    from dvcodec.io import Storage


_RAISE = "NAME=VALUE raises a limit on untrusted bytes, such as max_metadata_bytes; repeat for more."
LimitOption = Annotated[list[str] | None, typer.Option("--limit", metavar="NAME=VALUE", help=_RAISE)]

StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="An option of the object store, as deltalake and polars spell it: aws_endpoint_url=..; repeat for more.",
    ),
]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        help="Log the number of requests to object stores, and all retries, to standard error; -vv logs each request.",
        show_default=False,
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors: the exit code says what was found.")
]
_ADDED = {
    "storage_option": (StorageOption, None),
    "verbose": (Verbose, 0),
    "quiet": (Quiet, False),
    "limit": (LimitOption, None),
}
_IS_QUIET: ContextVar[bool] = ContextVar("whether the command prints nothing", default=False)
_STORAGE: ContextVar[Storage | None] = ContextVar("storage of the command", default=None)
_COMMAND: ContextVar[str] = ContextVar("name of the command", default="")


def is_quiet() -> bool:
    """Return whether the running command prints nothing but errors."""
    return _IS_QUIET.get()


def command_name() -> str:
    """Return the name of the running command, such as ``zap terms``."""
    return _COMMAND.get()


def storage() -> Storage:
    """Return the storage of the running command, which opens all its files and caches what it reads from stores."""
    known = _STORAGE.get()
    if known is None:
        known = _new({}, [])
        _STORAGE.set(known)
    return known


def _new(options: dict[str, str], limits: list[str]) -> Storage:
    from dvcodec.core.limits import Limits, parse_limits  # slow to import, and help does not need it
    from dvcodec.io import Storage

    class CommandLimits(Limits):
        __slots__ = ()
        how_to_raise = "--limit {}=..."

    return Storage(options, parse_limits(limits, CommandLimits(), "--limit"))


def with_storage(command: Callable[..., Any], name: str = "") -> Callable[..., Any]:
    """Add the common options to a command, which is called by that name.

    A parameter whose type is a dataclass stands for an option of each of its fields.
    """
    if hasattr(command, "__signature__"):  # done already
        return command

    signature = inspect.signature(command, eval_str=True)  # get_type_hints of 3.10 hides the Annotated of `= None`
    own: dict[str, inspect.Parameter] = {}
    groups: dict[str, tuple[type[Any], list[str]]] = {}
    for parameter in signature.parameters.values():
        kind, is_group = parameter.annotation, is_dataclass(parameter.annotation)
        if is_group:
            members = inspect.signature(kind, eval_str=True).parameters
            groups[parameter.name] = kind, list(members)
            own |= members
        else:
            own[parameter.name] = parameter
    rows = own.get("limit")

    def run(**arguments: Any) -> Any:
        given = _parse(arguments.pop("storage_option") or [])
        texts = arguments.pop("limit") or []
        if rows is not None:
            arguments["limit"] = _rows([text for text in texts if "=" not in text], rows.default)
            texts = [text for text in texts if "=" in text]
        for group, (kind, members) in groups.items():
            arguments[group] = kind(**{member: arguments.pop(member) for member in members})
        with _silenced(arguments.pop("quiet")), _logged(arguments.pop("verbose")):
            _STORAGE.set(_new(given, texts))
            _COMMAND.set(name)
            try:
                return command(**arguments)
            finally:
                _STORAGE.set(None)
                _COMMAND.set("")

    added = {
        name: inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in _ADDED.items()
    }
    if rows is not None:
        added["limit"] = added["limit"].replace(annotation=_with_rows(rows))
    parameters = [one.replace(kind=one.KEYWORD_ONLY) for one in (own | added).values()]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__doc__, run.__name__, run.__module__ = command.__doc__, command.__name__, command.__module__
    return run


def _with_rows(rows: inspect.Parameter) -> Any:
    """Return the option of limits for a command whose own ``--limit`` is a number of rows."""
    (own,) = rows.annotation.__metadata__
    default = "" if rows.default is None else f" By default {rows.default}."
    help_ = f"{own.help}{default} {_RAISE}"
    return Annotated[list[str] | None, typer.Option("--limit", metavar="N | NAME=VALUE", help=help_)]


def _rows(given: list[str], default: int | None) -> int | None:
    if not given:
        return default
    text = given[-1]
    if not (text.isascii() and text.isdigit()):
        raise UsageError(f"--limit {text:.80}: expected a number of 0 or more, or NAME=VALUE")
    return int(text)


def _parse(given: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for text in given:
        key, separator, value = text.partition("=")
        if not separator or not key:
            shown = text.partition(":")[0] if not separator else "=.."  # what follows may be a secret
            raise UsageError(f"--storage-option {shown}: expected KEY=VALUE, as in aws_region=eu-central-1")
        options[key] = value
    return options


@contextmanager
def _silenced(quiet: bool) -> Iterator[None]:
    """Discard what is printed on standard output."""
    if not quiet:
        yield
        return
    before = _IS_QUIET.set(True)
    try:
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
            yield
    finally:
        _IS_QUIET.reset(before)


@contextmanager
def _logged(verbose: int) -> Iterator[None]:
    """Write the library's log to standard error: warnings, from INFO on, or all of it."""
    logger = logging.getLogger("dvcodec")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter())
    logger.addHandler(handler)
    try:
        with _detailed(logger, verbose) if verbose else nullcontext():
            yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def _detailed(logger: logging.Logger, verbose: int) -> Iterator[None]:
    """Lower the level of the log, and log the requests to object stores at the end."""
    from dvcodec.io.store import request_counts

    level = logger.level
    logger.setLevel(logging.INFO if verbose == 1 else logging.DEBUG)
    before = request_counts()
    try:
        yield
    finally:
        logger.info("object stores: %s", request_counts() - before)
        logger.setLevel(level)


_ASCII = str.maketrans({NOTHING: "-", NONE_HERE: "."} | {bar: str(i) for i, bar in enumerate(BARS, 1)})


def speak_any_encoding() -> None:
    """Make standard output replace characters that its encoding lacks, instead of failing."""
    codecs.register_error("dvcodec", _in_ascii)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="dvcodec")


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Replace our characters by ASCII: digits for the bars of a strip, escapes for others."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_ASCII)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


def complain(problem: Exception | str) -> None:
    """Report a problem on standard error, on one line; the notes of an error on lines of their own."""
    notes = getattr(problem, "__notes__", ())
    if isinstance(problem, OSError) and hasattr(problem, "words"):  # `StoreError`: its text is one line
        problem = str(problem)
    elif isinstance(problem, OSError) and problem.strerror:
        problem = f"{problem.filename}: {problem.strerror}" if problem.filename is not None else problem.strerror
    for line in (problem, *notes):
        print(f"dvcodec: {plain(str(line))}", file=sys.stderr)

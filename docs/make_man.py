"""Writes man pages from the command line itself: `make man`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from make_cli import Parameter, own_parameters, parameters, usage

from dvcodec._version import __version__
from dvcodec.cli.app import build
from dvcodec.cli.common import with_storage

EXIT_STATUS = (
    ("0", "no findings"),
    ("1", "findings: a check failed, the sides differ, or a vector could not be read"),
    ("2", "unreadable bytes, a missing file, a refused table or commit, or wrong usage"),
    ("130", "interrupted"),
)


def pages() -> dict[str, str]:
    """Return the text of each page by its file name: one for each command, and one for all."""
    app = build()
    found = dict(_commands(app))
    listed = [(name, _first_line(command)) for name, command in found.items()]
    items = [(rf"\fB{_roff('dvcodec-' + name.replace(' ', '-'))}\fR(1)", said) for name, said in listed]
    about = str(app.info.help)
    sections = [
        _section("SYNOPSIS", r".B dvcodec" + "\n" + r"\fICOMMAND\fR [\fIOPTIONS\fR] ..."),
        _section("DESCRIPTION", _roff(about)),
        _section("COMMANDS", _items(items)),
        _section("OPTIONS OF EVERY COMMAND", _options(parameters(with_storage(lambda: None)))),
        _section("EXIT STATUS", _items(EXIT_STATUS)),
    ]
    texts = {
        "dvcodec.1": _page("dvcodec", "delete rows of tables by deletion vectors, check and repair tables", sections)
    }
    for name, command in found.items():
        texts[f"dvcodec-{name.replace(' ', '-')}.1"] = _command(name, command)
    return texts


def _commands(group: typer.Typer, before: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the name and function of each command, those in groups after the name of the group."""
    for command in group.registered_commands:
        assert command.callback is not None
        yield f"{before}{command.name or command.callback.__name__.replace('_', '-')}", command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from _commands(inner.typer_instance, f"{before}{inner.name} ")


def _command(name: str, command: Callable[..., Any]) -> str:
    found = own_parameters(command)
    arguments = [one for one in found if one.is_argument]
    options = [one for one in found if not one.is_argument]
    words = " ".join(rf"\fI{_roff(word)}\fR" for word in usage(found))
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    sections = [
        _section("SYNOPSIS", f".B dvcodec {_roff(name)}\n{words}"),
        _section("DESCRIPTION", "\n.PP\n".join(map(_roff, paragraphs))),
        _section("ARGUMENTS", _items((rf"\fI{_roff(one.value)}\fR", str(one.info.help)) for one in arguments)),
        _section("OPTIONS", _options(options)),
        _section("SEE ALSO", ".BR dvcodec (1),\nwhich has the options of every command and the exit status"),
    ]
    return _page(f"dvcodec-{name.replace(' ', '-')}", _first_line(command), sections)


def _page(name: str, line: str, sections: Iterable[str]) -> str:
    head = f'.TH {_roff(name).upper()} 1 "" "dvcodec {__version__}" "dvcodec"\n'
    sentence = line.partition(". ")[0].rstrip(".")
    named = _section("NAME", rf"{_roff(name)} \- {_roff(sentence[0].lower() + sentence[1:])}")
    return head + named + "".join(sections)


def _section(title: str, text: str) -> str:
    return f".SH {title}\n{text}\n" if text else ""


def _options(found: Iterable[Parameter]) -> str:
    return _items((_bold(one.shown), one.meaning.replace("**", "").replace("`", "")) for one in found)


def _bold(shown: str) -> str:
    """Return what `Parameter.shown` has between backticks: names in bold, the placeholder of a value in italics."""
    parts = [part.replace("\\|", "|") for part in shown.split("`")]
    for place in range(1, len(parts), 2):
        parts[place] = rf"\f{'B' if parts[place].startswith('-') else 'I'}{_roff(parts[place])}\fR"
    return "".join(parts)


def _items(items: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f".TP\n{term}\n{_roff(said)}" for term, said in items)


def _first_line(command: Callable[..., Any]) -> str:
    return " ".join((inspect.getdoc(command) or "").partition("\n\n")[0].split())


def _roff(text: str) -> str:
    """Return text as troff takes it, on one line, without a control character at its start."""
    line = " ".join(text.replace("\\|", "|").split()).replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{line}" if line.startswith((".", "'")) else line


def write(folder: Path) -> None:
    """Write the pages to a folder, which is made if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))

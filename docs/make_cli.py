"""Writes docs/commands.md from the command line itself: `make docs`."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from dvcodec.cli.app import build
from dvcodec.cli.storage import with_storage

PAGE = Path(__file__).parent / "commands.md"
HEAD = """# Commands

What `dvcodec COMMAND --help` says, of all commands. How targets are named, and what the exit codes mean, is told in
[Command line](command-line.md). This page is written by `make docs`.

Every command has these options besides:
"""
COMMON = ("storage_option", "verbose")
"""Options of every command, listed once, at the top."""
VALUES = {int: "INTEGER", float: "NUMBER", str: "TEXT"}


@dataclass(frozen=True)
class Parameter:
    """An argument or option of a command, as its signature has it."""

    name: str
    kind: Any
    default: Any
    info: Any

    @property
    def is_argument(self) -> bool:
        """Whether its place tells what it is."""
        return isinstance(self.info, typer.models.ArgumentInfo)

    @property
    def required(self) -> bool:
        """Whether it has to be given."""
        return self.default is inspect.Parameter.empty

    @property
    def is_list(self) -> bool:
        """Whether it may be given several times."""
        return get_origin(self.kind) is list

    @property
    def value(self) -> str:
        """What stands for its value."""
        if self.info.metavar:
            return str(self.info.metavar)
        if self.is_argument:
            return self.name.upper()
        kind = get_args(self.kind)[0] if self.is_list else self.kind
        return "|".join(choice.value for choice in kind) if issubclass(kind, Enum) else VALUES[kind]

    @property
    def shown(self) -> str:
        """How it is typed."""
        if self.is_argument:
            return code(self.value)
        given = (self.info.default, *(self.info.param_decls or ()))  # within Annotated, the first one is the default
        names = [part for name in given if isinstance(name, str) for part in name.split("/")]
        names = names or [f"--{self.name.replace('_', '-')}"]
        typed = ", ".join(map(code, names))
        return typed if self.kind is bool or self.info.count else f"{typed} {code(self.value)}"

    @property
    def meaning(self) -> str:
        """What help says of it, and what it is by default."""
        said = cleaned(self.info.help or "").replace("|", "\\|")
        if self.is_argument:
            return said
        said += " **Required.**" if self.required else ""
        shown = type(self.default) in VALUES and self.info.show_default
        return f"{said} Default: {code(self.default)}." if shown else said


def page() -> str:
    """The whole page."""
    common = table(parameter for parameter in parameters(with_storage(lambda: None)))
    return "\n".join([HEAD, common, *commands(build())])


def commands(group: typer.Typer, before: str = "") -> Iterator[str]:
    """The sections of all commands of a group, and of the groups in it."""
    for command in group.registered_commands:
        assert command.callback is not None
        yield section(f"{before}{command.name or command.callback.__name__.replace('_', '-')}", command.callback)
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        name = inner.name or inner.typer_instance.info.name
        yield f"## {name}\n\n{inner.help or inner.typer_instance.info.help}\n"
        yield from commands(inner.typer_instance, f"{name} ")


def section(name: str, command: Callable[..., Any]) -> str:
    """What is said of one command."""
    found = [parameter for parameter in parameters(command) if not getattr(parameter.info, "hidden", False)]
    found = [parameter for parameter in found if parameter.name not in COMMON]
    found.sort(key=lambda parameter: not parameter.is_argument)
    usage = [argument(parameter) for parameter in found if parameter.is_argument]
    usage += [
        f"{parameter.shown.replace('`', '')}" for parameter in found if parameter.required and not parameter.is_argument
    ]
    usage += ["[OPTIONS]"] if any(not parameter.required for parameter in found) else []
    text = f"{'###' if ' ' in name else '##'} {name}\n\n```text\n{' '.join(['dvcodec', name, *usage])}\n```\n\n"
    text += f"{cleaned(inspect.getdoc(command) or '')}\n"
    return f"{text}\n{table(found)}" if found else text


def table(found: Iterable[Parameter]) -> str:
    """Parameters and what they mean."""
    rows = [f"| {parameter.shown} | {parameter.meaning} |\n" for parameter in found]
    return f"| | |\n|---|---|\n{''.join(rows)}"


def parameters(command: Callable[..., Any]) -> Iterator[Parameter]:
    """The parameters of a command, in its order."""
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        hint = hints[name]
        if get_origin(hint) in (Union, types.UnionType):  # Annotated[...] | None
            hint = next(part for part in get_args(hint) if part is not type(None))
        assert get_origin(hint) is Annotated, name
        kind, info = get_args(hint)[:2]
        if get_origin(kind) in (Union, types.UnionType):
            kind = next(part for part in get_args(kind) if part is not type(None))
        yield Parameter(name, kind, parameter.default, info)


def argument(parameter: Parameter) -> str:
    """An argument as it stands in the line that shows usage."""
    if parameter.value.startswith("["):
        return parameter.value
    name = parameter.value + ("..." if parameter.is_list else "")
    return name if parameter.required else f"[{name}]"


def code(text: object) -> str:
    """Text as code in a table."""
    return f"`{text}`".replace("|", "\\|")


def cleaned(text: str) -> str:
    """Text with a line for each of its paragraphs."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")).strip()


if __name__ == "__main__":
    PAGE.write_text(page())

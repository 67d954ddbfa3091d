"""Tables of cases: one test that tries them all, and names those that fail.

pytest collects, sends and reports each parameter of `pytest.mark.parametrize` as a test of its own, in every worker.
Where the cases are many and quick, that takes longer than what they test.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

Test = Callable[..., None]
Ids = Iterable[str | None] | Callable[[Any], object] | None


def each(names: str | Sequence[str], cases: Iterable[Any], ids: Ids = None) -> Callable[[Test], Test]:
    """Try a test with each case, like `pytest.mark.parametrize`, but as one test.

    Every case has a `tmp_path` and a `monkeypatch` of its own; the cases share all other fixtures.

    Args:
        names: of the parameters.
        cases: a value for each parameter, or the value of the only one.
        ids: names of the cases, or what names a value.
    """
    rows = [(case,) if isinstance(names, str) else tuple(case) for case in cases]
    columns = [names] if isinstance(names, str) else list(names)
    labels = _labels(rows, ids)

    def decorate(test: Test) -> Test:
        asked = inspect.signature(test)
        assert set(columns) <= set(asked.parameters), f"{test.__name__} takes no {columns}"

        @functools.wraps(test)
        def run(*self: Any, **fixtures: Any) -> None:
            failed: dict[str, Exception] = {}
            for number, (label, row) in enumerate(zip(labels, rows, strict=True)):
                try:
                    with pytest.MonkeyPatch.context() as patch:
                        test(*self, **_own(fixtures, number, patch), **dict(zip(columns, row, strict=True)))
                except Exception as error:  # noqa: BLE001  (reported)
                    failed.setdefault(f"{number}: {label}", error)
            if failed:
                first = next(iter(failed.values()))
                raise AssertionError(f"{len(failed)} of {len(rows)} cases: {', '.join(failed)}") from first

        left = [parameter for name, parameter in asked.parameters.items() if name not in columns]
        run.__signature__ = asked.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


def _own(fixtures: dict[str, Any], number: int, patch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The fixtures of a case."""
    own = dict(fixtures)
    if "tmp_path" in own:
        folder: Path = own["tmp_path"] / str(number)
        folder.mkdir()
        own["tmp_path"] = folder
    if "monkeypatch" in own:
        own["monkeypatch"] = patch
    return own


def _labels(rows: Sequence[tuple[Any, ...]], ids: Ids) -> list[str]:
    if ids is None or callable(ids):
        name: Callable[[Any], object] = ids or repr
        return ["-".join(str(name(value))[:60] for value in row) for row in rows]
    return [str(label) for label in ids]

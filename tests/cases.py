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
_PARAM: Any = type(pytest.param())


def each(names: str | Sequence[str], cases: Iterable[Any], ids: Ids = None) -> Callable[[Test], Test]:
    """Try a test with each case, like `pytest.mark.parametrize`, but as one test.

    Every case has a `tmp_path` and a `monkeypatch` of its own; the cases share all other fixtures.

    Args:
        names: of the parameters.
        cases: a value for each parameter, the value of the only one, or a `pytest.param`.
        ids: names of the cases, or what names a value.
    """
    columns = [names] if isinstance(names, str) else list(names)
    rows, labels = [], []
    for case in cases:
        named = case if isinstance(case, _PARAM) else None
        rows.append(tuple(named.values) if named else (case,) if isinstance(names, str) else tuple(case))
        labels.append(named.id if named else None)
    if ids is not None and not callable(ids):
        labels = list(ids)
    name = ids if callable(ids) else repr

    def label(number: int) -> str:
        return f"{number}: {labels[number] or '-'.join(str(name(value))[:60] for value in rows[number])}"

    def decorate(test: Test) -> Test:
        asked = inspect.signature(test)
        assert set(columns) <= set(asked.parameters), f"{test.__name__} takes no {columns}"

        @functools.wraps(test)
        def run(*self: Any, **fixtures: Any) -> None:
            failed: dict[str, BaseException] = {}
            skipped: dict[str, BaseException] = {}
            for number, row in enumerate(rows):
                try:
                    with pytest.MonkeyPatch.context() as patch:
                        test(*self, **_own(fixtures, number, patch), **dict(zip(columns, row, strict=True)))
                except pytest.skip.Exception as reason:
                    skipped[label(number)] = reason
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001  (reported)
                    failed[label(number)] = error
            for found in (failed, skipped):
                if found:
                    first = next(iter(found.values()))
                    message = f"{len(found)} of {len(rows)} cases: {', '.join(found)}"
                    if found is failed:
                        raise AssertionError(message) from first
                    pytest.skip(f"{message}: {first}")

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

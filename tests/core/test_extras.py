"""Optional modules are imported when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dvcodec import MissingExtra
from dvcodec.core import extras


def test_a_stand_in_has_the_names_of_its_module() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    assert extras.pa.Table is pyarrow.Table
    assert extras.types.is_struct is pyarrow.types.is_struct
    with pytest.raises(AttributeError, match="nothing"):
        extras.pa.nothing  # noqa: B018


def test_nothing_is_imported_before_it_is_used() -> None:
    code = """
import sys
import dvcodec.io.store.objects
from dvcodec.core.extras import ds, fs, pa, pc, pq, types
assert not {'pyarrow', 'obstore'} & {*sys.modules}
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_module_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"^pyarrow is needed .*dvcodec\[arrow\]"):
        extras.pa.Table  # noqa: B018
    with pytest.raises(MissingExtra, match=r"dvcodec\[tables\]"):
        extras.require_extra("pyarrow", "tables")

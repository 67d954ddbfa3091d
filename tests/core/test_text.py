"""Numbers and names for people."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import each
from dvcodec.core.text import bytes_text, card, counted, folder_of, number, plain, share_text, shares_text


@each(
    ("paths", "folder"),
    [
        ([], ""),
        (["a.parquet"], ""),
        (["t/a.parquet"], "t/"),
        (["/t/a.parquet", "/t/b.parquet"], "/t/"),
        (["/t/day=1/a", "/t/day=12/a"], "/t/"),
        (["/t/a", "/t/a/b"], "/t/"),
        (["s3://lake/a", "s3://pond/a"], ""),
        (["s3://lake/a", "file.parquet"], ""),
    ],
)
def test_folder_of(paths: list[str], folder: str) -> None:
    assert folder_of(paths) == folder


@given(st.text())
def test_plain_text_prints_on_one_line(text: str) -> None:
    assert plain(text).isprintable()
    assert plain(plain(text)) == plain(text)


def test_numbers_of_people() -> None:
    assert [number(value) for value in (None, 0, 1234567)] == ["\N{EN DASH}", "0", "1,234,567"]
    shares = (None, 0.0, 0.12345, 0.9994, 0.9995, 1.0, 1.5)
    assert [share_text(value) for value in shares] == [
        "\N{EN DASH}", "0 %", "12.3 %", "99.9 %", ">99.9 %", "100 %", "150 %",
    ]  # fmt: skip
    assert shares_text([0, 0.001, 0.124, 0.125, 0.5, 0.99, 1]) == "\N{MIDDLE DOT}▁▁▂▅██"
    assert shares_text([]) == "\N{EN DASH}"
    assert [counted(count, "file") for count in (0, 1, 1234)] == ["no files", "1 file", "1,234 files"]
    sizes = (None, 0, 999, 1023, 1024, 1023 * 1024, 1 << 30, 1 << 40)
    assert [bytes_text(value) for value in sizes] == [
        "\N{EN DASH}", "0 B", "999 B", "1023 B", "1 KiB", "1023 KiB", "1 GiB", "1024 GiB",
    ]  # fmt: skip


def test_cards_show_twenty_rows() -> None:
    assert card("a<b") == "<div><b>a&lt;b</b></div>"
    rows = [(f"{i}",) for i in range(21)]
    for count, more in ((20, ""), (21, "<small>and 1 more</small>")):
        found = card("t", ["x", "y\n"], ["n"], rows, count)
        assert found.startswith("<div><b>t</b><br><small>x · y\\n</small><table><tr><th ")
        assert found.count("<td ") == 20
        assert found.endswith(f"</table>{more}</div>")

"""Draws the frame that three formats share, and its place in their files: `make docs`."""

from __future__ import annotations

from html import escape
from pathlib import Path

PICTURE = Path(__file__).parent / "frame.svg"
WIDTH, HEIGHT = 900, 500
INK, PALE, SHARED, BITMAP = "#1f2430", "#eef0f6", "#c9d4ff", "#ffe2a8"
FRAME = (
    ("length", "4 bytes, big-endian", 130, SHARED),
    ("magic", "D1 D3 39 64", 130, SHARED),
    ("bitmap", "64-bit portable roaring, little-endian", 390, BITMAP),
    ("CRC-32", "4 bytes, big-endian", 130, SHARED),
)
FILES = (
    ("Iceberg", "Puffin file", (("PFA1", 60), ("blob", 0), ("blob", 0), ("footer: offset, length of each", 250))),
    ("Delta", "deletion_vector_….bin", (("01", 60), ("frame", 0), ("frame", 0))),
    ("Paimon", "index file, 64 bits", (("01", 60), ("frame", 0), ("frame", 0))),
)
LEFT, TOP, CELL = 60, 232, 150


def box(x: float, y: float, width: float, height: float, fill: str) -> str:
    """A cell."""
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" stroke="{INK}" stroke-width="1"/>'


def text(x: float, y: float, said: str, size: int = 14, anchor: str = "middle", weight: str = "normal") -> str:
    """A line of text."""
    style = f'font-size="{size}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x}" y="{y}" {style}>{escape(said)}</text>'


def span(x: float, y: float, width: float, said: str) -> str:
    """A bracket below the bytes that it measures, with a label."""
    path = f"M{x} {y} v7 h{width} v-7"
    return f'<path d="{path}" fill="none" stroke="{INK}"/>' + text(x + width / 2, y + 22, said, 13)


def files() -> list[str]:
    """The containers, one per line; the frame below is the first of each."""
    parts = []
    for row, (name, what, cells) in enumerate(FILES):
        y = 24 + row * 56
        parts += [text(LEFT, y + 16, name, 15, "start", "bold"), text(LEFT, y + 33, what, 12, "start")]
        x = LEFT + 170
        for said, width in cells:
            wide = width or CELL
            parts += [box(x, y, wide, 38, PALE if width else SHARED), text(x + wide / 2, y + 24, said, 13)]
            x += wide
    x = LEFT + 170 + 60
    lines = f"M{x} {24 + 2 * 56 + 38} L{LEFT} {TOP} M{x + CELL} {24 + 2 * 56 + 38} L{LEFT + 780} {TOP}"
    return [*parts, f'<path d="{lines}" stroke="{INK}" stroke-dasharray="4 4" fill="none"/>']


def frame() -> list[str]:
    """The frame, and the bytes that its sizes and CRC cover."""
    parts, x, at = [], LEFT, {}
    for name, what, width, fill in FRAME:
        at[name] = (x, width)
        parts += [box(x, TOP, width, 64, fill), text(x + width / 2, TOP + 28, name, 16, weight="bold")]
        parts.append(text(x + width / 2, TOP + 48, what, 12))
        x += width
    inner, both = at["magic"][0], at["magic"][1] + at["bitmap"][1]
    parts.append(span(inner, TOP + 72, both, "counted by length, summed by CRC-32; Delta: sizeInBytes"))
    whole = "Iceberg: content_size_in_bytes; Paimon, 64 bits: length of the index manifest"
    parts.append(span(LEFT, TOP + 112, x - LEFT, whole))
    parts.append(text(LEFT, TOP + 172, "bitmap", 14, "start", "bold"))
    cells = (
        ("number of keys", "8 bytes", 150),
        ("key 0", "4 bytes", 100),
        ("32-bit roaring bitmap", "rows of key 0", 190),
    )
    cells += (("key 1", "4 bytes", 100), ("32-bit roaring bitmap", "rows of key 1", 190), ("…", "", 50))
    x = LEFT
    for name, what, width in cells:
        parts += [box(x, TOP + 182, width, 46, BITMAP), text(x + width / 2, TOP + 202, name, 13)]
        parts.append(text(x + width / 2, TOP + 219, what, 11))
        x += width
    said = "Row position = key * 2**32 + value. The offset that metadata gives points at the length."
    return [*parts, text(LEFT, TOP + 252, said, 13, "start")]


def picture() -> str:
    """The whole picture."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" fill="{INK}">'
    )
    title = "<title>length, magic, bitmap, CRC: the frame of Iceberg, Delta and Paimon</title>"
    ground = f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff"/>'
    return "\n".join([head, title, ground, *files(), *frame(), "</svg>"]) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture())

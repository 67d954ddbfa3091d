"""A table's deletion vectors as one self-contained HTML page: `dvcodec report TABLE -o report.html`.

The page loads nothing: style, script and data are in it, and its content security policy allows no others. Paths and
messages of the table, which may hold anything, are escaped, and shown on one line. Without scripts only the list of
all data files is missing.
"""

from dvcodec.report.page import render, write

__all__ = ["render", "write"]

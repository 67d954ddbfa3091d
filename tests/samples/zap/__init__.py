"""Segments of zap: `segments` lays them out byte by byte, `documents` draws documents and what a segment of them holds.

`parts` has the files by zapx and what comparing takes, `golden` the documents and dumps of interop/go, `postings` lists
as rows, `vellum` dictionaries put together from states.
"""

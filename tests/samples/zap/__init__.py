"""Segments of zap: `segments` lays them out byte by byte, `documents` draws documents and what a segment of them holds.

`parts` has the files by zapx and what comparing takes, `golden` the documents and dumps of interop/go. The others have
one part each, as rows, with a slow reader and writer: `postings`, `doc_values`, `stored`, `synonyms`, `vellum`.
"""

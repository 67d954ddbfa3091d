"""Encoding and decoding shared by all formats, in memory: nothing here opens a file.

From the bottom up: `errors`, `limits`, `cursor`, `checksum`, `compress`; `arguments` (validates what callers pass) and
`build` (positions to bitmaps); `bitmap` and `roaring` (32-bit bitmaps), `expand` (to ranges and masks), `roaring64` and
`expand64` (bitmaps by key); `rowset` (the value); `frame`, `vector` (a stored vector), `location`, `report`;
`interrupts`. In bulk: `ragged`, `varints`, `bitmaps`, `batch`.
"""

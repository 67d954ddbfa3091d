"""Encoding and decoding shared by all formats, in memory: nothing here opens a file.

From the bottom up: `errors`, `limits`, `cursor`, `checksum`, `compress`; `bitmap` and `roaring` (bitmaps, built and
walked), `expand` (to positions, ranges and masks); `rowset` (the value); `vector` (a stored vector), `report`;
`interrupts`. In bulk: `ragged`, `varints`, `bitmaps`, `batch`.
"""

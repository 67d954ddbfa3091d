"""What all formats share: bytes in, values out; values in, bytes out. Nothing here opens a file.

From the bottom up: `errors`, `limits`, `cursor`, `checksum`, `compress`; `arguments` (what callers pass, checked) and
`build` (positions to bitmaps); `bitmap` and `roaring` (32-bit bitmaps), `expand` (to ranges and masks), `roaring64` and
`expand64` (bitmaps by key); `rowset` (the value); `frame`, `vector` (a stored vector), `location`, `report`. Many at
once: `ragged`, `scattered`, `varints`, `bitmaps`, `batch`.
"""

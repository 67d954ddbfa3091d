"""Builders of sample data: bytes, files and whole tables, valid or with one chosen fault.

| module | builds |
|---|---|
| `bitmaps` | Roaring bitmaps, 64-bit vectors and frames, byte by byte |
| `containers` | one file of every container of vectors, with the rows in it |
| `puffin`, `avro` | Puffin files (also of deletion vectors), Avro files; compressed frames of either |
| `bombs` | bytes that unpack to far more, JSON that is deep or long |
| `delta_table`, `delta_log` | Delta tables of any form; one small table with WRITE, DELETE and RESTORE |
| `iceberg_table`, `paimon_table` | Iceberg and Paimon tables |
| `paimon_index` | the index files that Paimon wrote, and the rows in them |
| `lance`, `bolt` | Lance's messages and segments; bbolt files, which hold scorch's metadata |
| `memory_table` | a table with its metadata in memory, for what all formats share |
| `contradictions`, `locations` | tables whose metadata contradicts itself, or names locations it may not |
| `audits`, `position_rows` | audits for reports; rows for the Spark jobs |
| `zap` | segments of zap and their parts, each with a slow reader to compare with |

What is built here is laid out after the formats' specifications and not by the code under test, except where a module
says so. Expected values stand beside the bytes.
"""

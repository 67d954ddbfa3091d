"""Lance: row-id sequences, version sequences, deletion files, row-address maps, and the manifest.

`row_ids`: the sequences, of `segments` of numbers, stored as protobuf (`wire`); row addresses; whether row ids are
unique. `deletions`: sets of rows. `manifest`: the versions of a dataset and the operations that created them; row
counts of data files.
"""

from dvcodec.lance.deletions import (
    DeletionFile,
    choose_kind,
    read_deletion_file,
    write_deletion_file,
)
from dvcodec.lance.manifest import (
    BasePath,
    Fragment,
    FragmentFile,
    Manifest,
    find_manifest,
    manifest_name,
    manifest_version,
    read_manifest,
    read_operation,
)
from dvcodec.lance.row_ids import (
    TOMBSTONE_ADDRESS,
    TOMBSTONE_FRAGMENT,
    FragmentIds,
    RowAddrMap,
    RowDatasetVersionSequence,
    RowIdSequence,
    VersionRun,
    check_row_ids,
    decode_row_addr_map,
    decode_row_ids,
    decode_versions,
    encode_row_addr_map,
    encode_row_ids,
    encode_versions,
    live_row_ids,
    rechunk,
    row_addresses,
    split_row_addresses,
)
from dvcodec.lance.segments import (
    ArraySegment,
    EncodedArray,
    RangeSegment,
    RangeWithBitmap,
    RangeWithHoles,
    Segment,
    SortedArray,
)

__all__ = [
    "TOMBSTONE_ADDRESS",
    "TOMBSTONE_FRAGMENT",
    "ArraySegment",
    "BasePath",
    "DeletionFile",
    "EncodedArray",
    "Fragment",
    "FragmentFile",
    "FragmentIds",
    "Manifest",
    "RangeSegment",
    "RangeWithBitmap",
    "RangeWithHoles",
    "RowAddrMap",
    "RowDatasetVersionSequence",
    "RowIdSequence",
    "Segment",
    "SortedArray",
    "VersionRun",
    "check_row_ids",
    "choose_kind",
    "decode_row_addr_map",
    "decode_row_ids",
    "decode_versions",
    "encode_row_addr_map",
    "encode_row_ids",
    "encode_versions",
    "find_manifest",
    "live_row_ids",
    "manifest_name",
    "manifest_version",
    "read_deletion_file",
    "read_manifest",
    "read_operation",
    "rechunk",
    "row_addresses",
    "split_row_addresses",
    "write_deletion_file",
]

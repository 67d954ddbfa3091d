"""What an adversary found: each once broke the invariant, or asked for more than its bytes can pay for."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cases import each
from dvcodec import (
    BadMagic,
    CardinalityMismatch,
    DecodeError,
    NotCanonical,
    RowSet,
    UsageError,
    convert,
    delta,
    iceberg,
    paimon,
    puffin,
    read_rows,
    sniff,
    verify,
)
from dvcodec.core import frame, vector
from dvcodec.core.cursor import Cursor, as_view
from dvcodec.core.frame import Magic
from dvcodec.iceberg.position_deletes import vectors_from_arrow
from dvcodec.ops.convert import write
from dvcodec.ops.stats import measure
from dvcodec.puffin import BlobMetadata, PuffinWriter

ONE_ROW = bytes.fromhex("3a3000000100000000000000100000000500")
MAIN = [sys.executable, "-c", "from dvcodec.cli import main; main()"]


def puffin_of(blob: bytes, codec: str | None = None, **properties: str) -> bytes:
    out = io.BytesIO()
    with PuffinWriter(out) as writer:
        writer.add_stored(BlobMetadata("deletion-vector-v1", (), -1, -1, 0, 0, codec, properties), blob)
    return out.getvalue()


def test_numbers_of_a_bitset_without_bits_are_refused() -> None:
    payload = struct.pack("<QI", 1, 0) + struct.pack("<IIHHI", 12346, 1, 0, 4999, 16) + bytes(8192)
    walked = vector.read(Cursor(frame.build(Magic.PORTABLE64, payload)))
    for ask in (lambda: measure(walked), lambda: walked.view.min, lambda: walked.view.max):
        with pytest.raises(NotCanonical, match="population"):
            ask()


@pytest.mark.parametrize("key", [0xA800000, 0x7FFFFFFE])
def test_a_bare_map_with_a_far_key_is_framed_and_not_filled_up(key: int) -> None:
    out = io.BytesIO()
    data = struct.pack("<QI", 1, key) + ONE_ROW
    (location,) = convert(data, "delta", out)
    assert location.size == len(data) + 12
    assert delta.load_frames(out.getvalue()) == {1: RowSet([(key << 32) + 5])}
    again = io.BytesIO()
    write("delta", again, read_rows(data))
    assert again.getvalue() == out.getvalue()


def test_a_bare_map_with_keys_of_no_vector_is_not_converted() -> None:
    with pytest.raises(UsageError, match="highest in a deletion vector"):
        convert(struct.pack("<QI", 1, 0xFFFFFFFF) + ONE_ROW, "delta", io.BytesIO())


@pytest.mark.parametrize("magic", [Magic.PAIMON32, Magic.NATIVE64])
def test_a_container_holds_its_own_layouts_only(magic: Magic) -> None:
    blob = frame.build(magic, vector.encode_payload(RowSet([1, 2]), magic))
    data = puffin_of(blob, cardinality="2", **{"referenced-data-file": "a"})
    assert [check.name for check in verify(data).findings] == ["magic"]
    with pytest.raises(BadMagic):
        read_rows(data)


def test_a_file_with_one_32_bit_vector_is_paimons() -> None:
    data = b"\1" + iceberg.encode(RowSet([1])) + paimon.encode(RowSet([7]))
    assert sniff(data).kind.value == "paimon"
    assert verify(data).ok
    assert not verify(data + delta.encode(RowSet([9]), layout="native")).ok


def test_every_way_to_read_a_puffin_file_keeps_its_rules() -> None:
    blob = iceberg.encode(RowSet([1, 2]))
    for data in (
        puffin_of(blob, "zstd", cardinality="2", **{"referenced-data-file": "a"}),
        puffin_of(blob, cardinality="x", **{"referenced-data-file": "a"}),
    ):
        for read in (iceberg.read_deletion_vectors, read_rows):
            with pytest.raises(NotCanonical):
                read(data)
        with pytest.raises(NotCanonical):
            convert(data, "delta", io.BytesIO())
    with pytest.raises(CardinalityMismatch):
        read_rows(puffin_of(blob, cardinality="3", **{"referenced-data-file": "a"}))


@each(
    ("kind", "path"),
    [
        ("p", "file:///tmp/a%00b"),
        ("p", "file:///tmp/a\ud800b"),
        ("p", "relative/../../x"),
        ("p", "file:s3://x"),
        ("p", "file:///tmp/a.bin?x#y"),
        ("u", "\0ab^-aqEH.-t@S}K{vb[*k^"),
        ("r", "a\0b"),
    ],
)
def test_paths_that_no_file_can_have_are_refused(kind: str, path: str) -> None:
    descriptor = delta.Descriptor(kind, path, 34, 1, 1)
    with pytest.raises(NotCanonical):
        delta.load(descriptor, "/tmp/table")


def test_dictionary_codes_outside_of_the_dictionary_are_refused() -> None:
    for codes in ([0, 5], [0, -1]):
        paths = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(["a", "b"]), safe=False)
        with pytest.raises(UsageError, match="outside its dictionary"):
            vectors_from_arrow(pa.table({"file_path": paths, "pos": [1, 2]}))


def test_a_column_that_is_there_twice_is_refused() -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array([1]), pa.array([2])], names=["file_path", "pos", "pos"])
    with pytest.raises(UsageError, match="2 columns 'pos'"):
        vectors_from_arrow(table)


class Reluctant(io.RawIOBase):
    """Takes ten bytes at a time, as a raw file may."""

    def __init__(self) -> None:
        self.taken = bytearray()

    def write(self, data: object) -> int:
        piece = memoryview(data)[:10]  # type: ignore[arg-type]
        self.taken += piece
        return len(piece)


def test_a_sink_that_takes_little_at_a_time_gets_everything() -> None:
    sink, whole = Reluctant(), io.BytesIO()
    vectors = {"a": RowSet(range(100))}
    iceberg.write_deletion_vectors(sink, vectors)  # type: ignore[arg-type]
    iceberg.write_deletion_vectors(whole, vectors)
    assert bytes(sink.taken) == whole.getvalue()


def test_moving_two_data_files_to_one_path_is_refused(tmp_path: Path) -> None:
    iceberg.write_deletion_vectors(tmp_path / "x.puffin", {"a": RowSet([1]), "b": RowSet([2])})
    with pytest.raises(UsageError, match="would both become 'b'"):
        puffin.rewrite_paths(tmp_path / "x.puffin", tmp_path / "y.puffin", {"a": "b"})
    assert not (tmp_path / "y.puffin").exists()


def test_frames_too_small_for_a_vector_end_the_reading() -> None:
    with pytest.raises(DecodeError, match="length field"):
        sniff(b"\1" + iceberg.encode(RowSet([1])) + bytes(8) * 1000)


def test_odd_arguments_are_the_callers_fault() -> None:
    assert len(as_view(np.zeros((0, 3), np.uint8))) == 0
    with pytest.raises(UsageError):
        RowSet(memoryview(b"abc"))
    with pytest.raises(UsageError, match="masked"):
        RowSet(np.ma.MaskedArray([1, 2], [False, True]))
    with pytest.raises(UsageError, match="0 or more"):
        delta.decode_inline("HelloWorld", -2)


def test_links_in_circles_are_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "loop"
    folder.mkdir()
    (folder / "one.dv").write_bytes(iceberg.encode(RowSet([1])))
    (folder / "l").symlink_to(".")
    (folder / "m").symlink_to("../loop")
    for target in ("loop/**", "loop"):
        done = subprocess.run([*MAIN, "verify", target], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "1 file, none with findings" in done.stdout


@pytest.mark.parametrize("closed", ["2>&-", "<&-"])
def test_closed_streams_are_no_crash(tmp_path: Path, closed: str) -> None:
    (tmp_path / "a.dv").write_bytes(iceberg.encode(RowSet([1])))
    target = "a.dv a.dv" if closed == "2>&-" else "-"
    command = f"{sys.executable} -c 'from dvcodec.cli import main; main()' verify {target} {closed}"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if closed == "2>&-" else 2)
    assert "Traceback" not in done.stderr

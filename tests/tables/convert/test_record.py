"""What a target can say of a vector."""

from __future__ import annotations

from cases import each
from dvcodec.core.frame import Magic
from dvcodec.tables import SnapshotInfo, TableKind
from dvcodec.tables.convert.record import Speller


@each(
    ("to", "magic", "offset", "may_stay"),
    [
        ("iceberg", Magic.PORTABLE64, 2**31, True),
        ("iceberg", Magic.NATIVE64, 4, False),
        ("delta", Magic.PORTABLE64, 2**31 - 1, True),
        ("delta", Magic.PORTABLE64, 2**31, False),  # Delta's offsets are numbers of 32 bits
        ("delta", Magic.PAIMON32, 1, False),
        ("paimon64", Magic.PORTABLE64, 1, False),
    ],
)
def test_vectors_that_stay_in_their_files(to: str, magic: Magic, offset: int, may_stay: bool) -> None:
    speller = Speller(to, TableKind.PAIMON, "/t", SnapshotInfo(1))  # type: ignore[arg-type]
    assert speller.may_stay(magic, offset) == may_stay

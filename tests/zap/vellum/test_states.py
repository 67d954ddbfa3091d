"""One state: what each form means, what is wrong with it, alone and among many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import each
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical
from dvcodec.zap.vellum.states import COMMON, NEXT, State, States, encode_many, encode_single
from samples.zap.vellum import CODES, TOP, blob, dictionaries, follow, little, many, naive_build, one

PAD = bytes(200)
AT = 16 + len(PAD)
"""Where a state begins that stands behind the padding."""


def states_of(data: bytes) -> States:
    return States(Cursor(data, source="x.zap", base=1000))


def behind(state: bytes) -> tuple[States, int]:
    """The states of a blob that has some room below `state`, and its address."""
    data = blob(PAD + state, 1)
    return states_of(data), len(data) - 17


def plain(state: State) -> State:
    """With tuples, for a comparison."""
    return State(state.final, state.output, state.inputs, tuple(state.targets), tuple(state.outputs))


def parse(state: bytes) -> State:
    """The state, as all readers have it."""
    states, addr = behind(state)
    found = plain(states.parse(addr))
    assert table(states, [addr]) == [found]
    return found


def table(states: States, addrs: list[int]) -> list[State]:
    """The states as the vectorised reader has them."""
    given = np.array(addrs, np.int64)
    heads = states.heads(given)
    steps = states.transitions(given, heads)
    assert len(steps.inputs) == len(steps.targets) == len(steps.outputs) == heads.counts.sum()
    found, at = [], 0
    for final, output, count in zip(heads.final.tolist(), heads.output.tolist(), heads.counts.tolist(), strict=True):
        part = slice(at, at + count)
        targets, outputs = tuple(steps.targets[part].tolist()), tuple(steps.outputs[part].tolist())
        found.append(State(final, output, steps.inputs[part].tobytes(), targets, outputs))
        at += count
    return found


def refused(state: bytes, what: str, *, at: int | None = None) -> NotCanonical:
    """The one error that all readers have for a state."""
    states, addr = behind(state)
    with pytest.raises(NotCanonical, match=what) as caught:
        states.parse(addr)
    assert (caught.value.source, caught.value.offset) == ("x.zap", 1000 + (addr if at is None else at))
    with pytest.raises(NotCanonical, match=what) as many_caught:
        table(states, [addr])
    assert str(many_caught.value) == str(caught.value)
    return caught.value


def test_common_bytes() -> None:
    assert COMMON[1:] == CODES
    assert len(set(CODES)) == 63


def test_the_forms_of_one_transition() -> None:
    for key in range(256):
        assert parse(follow(key)) == (False, 0, bytes([key]), (AT - 1,), (0,))
        assert parse(one(key, 3)) == (False, 0, bytes([key]), (AT - 3,), (0,))
        assert parse(one(key, 0)) == (False, 0, bytes([key]), (0,), (0,))
        assert parse(one(key, 200, 0x123456, sizes=(2, 3))) == (False, 0, bytes([key]), (16,), (0x123456,))
        assert parse(one(key, 1, TOP, sizes=(8, 8))) == (False, 0, bytes([key]), (AT - 1,), (TOP,))
        assert parse(one(key, 0, sizes=(0, 0))) == (False, 0, bytes([key]), (0,), (0,))


@pytest.mark.parametrize("sizes", [(1, 0), (1, 1), (2, 3), (8, 8)])
def test_many_transitions(sizes: tuple[int, int]) -> None:
    for count in [1, 2, 62, 63, 64, 65, 255, 256]:
        for final in [None, 0, 77]:
            edges = [(256 - count + i, i % 100, i % 256 if sizes[1] else 0) for i in range(count)]
            found = parse(many(edges, final=final, sizes=sizes))
            keys = bytes(key for key, _, _ in edges)
            targets = tuple(delta and AT - delta for _, delta, _ in edges)
            output = (final or 0) if sizes[1] else 0
            assert found == (final is not None, output, keys, targets, tuple(output for _, _, output in edges))


def test_a_count_may_stand_alone_however_small() -> None:
    edges = [(1, 0, 0), (2, 0, 0)]
    plain = many(edges, sizes=(1, 0))
    assert parse(plain[:-1] + b"\x02\x00") == parse(plain)
    assert parse(plain[:-1] + b"\x02\x40").final


def test_a_key_may_end_where_no_way_leads_on() -> None:
    assert parse(many(final=5, sizes=(0, 1))) == (True, 5, b"", (), ())
    assert parse(many(final=0, sizes=(0, 0))) == (True, 0, b"", (), ())
    assert states_of(blob(b"", 1, 0)).parse(0) == (True, 0, b"", (), ())


@pytest.mark.parametrize("pack", [0x90, 0x09, 0xF0, 0x0F, 0xFF])
def test_sizes_above_8(pack: int) -> None:
    error = refused(bytes([pack]) + b"\x81", "pack sizes of a state", at=AT)
    assert (error.expected, error.actual) == ("two of at most 8", f"{pack >> 4} and {pack & 15}")
    refused(b"a" + bytes([pack]) + b"\x01", "pack sizes of a state", at=AT + 1)
    refused(b"a" + bytes([pack]) + b"\x07\x40", "pack sizes of a state", at=AT + 1)


def test_a_next_state_has_no_sizes() -> None:
    assert parse(b"\xff" + follow(ord("t"))).targets == (AT,)


def test_states_that_begin_in_the_header() -> None:
    for state in (many([(key, 0, 0) for key in range(60)], final=1, sizes=(8, 8)), one(97, 0, 1, sizes=(8, 8))):
        whole, last = states_of(blob(state, 1)), 15 + len(state)
        assert table(whole, [last]) == [plain(whole.parse(last))]
        cut = states_of(blob(state[1:], 1))
        for read in (cut.parse, lambda addr, cut=cut: table(cut, [addr])):
            with pytest.raises(NotCanonical, match="lowest address of a state: expected at least 16, found 15"):
                read(last - 1)


@each("state", [b"\x00", b"\x40", b"\x80", b"\x81", b"\xc0", b"\xc1", b"\x01", b"\x3f"])
def test_a_single_byte_is_not_a_state(state: bytes) -> None:
    states = states_of(blob(state, 1))
    for read in (states.parse, lambda addr: table(states, [addr])):
        with pytest.raises(NotCanonical, match=r"(target|lowest address|number of transitions) of a state"):
            read(16)


def test_input_bytes_that_do_not_ascend() -> None:
    for keys in (b"ba", b"aa", b"abdc", b"\x80\x7f", bytes(range(255)) + b"\x00"):
        error = refused(many([(key, 0, 0) for key in keys]), "input bytes of a state")
        assert (error.expected, error.actual) == ("strictly ascending ones", keys.hex())


def test_no_way_and_no_key() -> None:
    error = refused(many(), "number of transitions of a state")
    assert (error.expected, error.actual) == ("at least 1, or a final state", 0)


@each("over", [*range(1, 16), 17, 1000, 2**31, 2**32 - 1, 2**32, 2**63 - 300, 2**63, TOP - AT - 9])
def test_targets_outside(over: int) -> None:
    """Beyond the lowest address, the room of the states ends; address 0 alone is something."""
    delta = AT - 16 + over if over < 16 else AT + over - 16
    for state in (one(97, delta, sizes=(8, 0)), many([(1, 0, 0), (2, delta, 0)], sizes=(8, 0))):
        bottom = AT
        error = refused(state, "target of a state")
        assert (error.expected, error.actual) == ("0 or an address of at least 16", bottom - delta)


def test_a_delta_to_address_0() -> None:
    assert parse(one(97, AT, sizes=(2, 0))).targets == (0,)


def test_a_next_state_without_a_state_below() -> None:
    for state in (follow(ord("t")), follow(200)):
        states = states_of(blob(state, 1))
        addr = 15 + len(state)
        for read in (states.parse, states.chain, lambda addr, states=states: table(states, [addr])):
            with pytest.raises(NotCanonical, match="target of a state: expected 0 or an address of at least 16, found"):
                read(addr)


def test_errors_name_the_first_wrong_state_of_many() -> None:
    good, bad = one(97, 0), one(97, 1, sizes=(9, 0))
    data = blob(PAD + good + bad + good + bad, 1)
    ends = [AT - 1 + sum(map(len, states)) for states in ([good], [good, bad], [good, bad, good], 2 * [good, bad])]
    with pytest.raises(NotCanonical) as caught:
        table(states_of(data), ends)
    assert caught.value.offset == 1000 + ends[1] - 1


def test_find_and_final() -> None:
    states, addr = behind(many([(1, 2, 3), (5, 0, TOP), (255, 200, 7)], final=9, sizes=(1, 8)))
    assert [states.find(addr, key) for key in (0, 1, 4, 5, 6, 255)] == [
        None, (AT - 2, 3), None, (0, TOP), None, (16, 7)
    ]  # fmt: skip
    assert (states.final(addr), states.final(0)) == (9, 0)
    states, addr = behind(follow(116))
    assert (states.find(addr, 116), states.find(addr, 117), states.final(addr)) == ((AT - 1, 0), None, None)


def test_chains_end_at_other_states_and_at_borders() -> None:
    data = blob(one(97, 0, 4, sizes=(1, 1)) + follow(98) + one(200, 1, 5) + follow(0) * 3000, 1)
    states = states_of(data)
    keys, addr, value, pieces = b"", len(data) - 17, 0, 0
    while addr:
        piece, addr, more = states.chain(addr)
        assert piece
        assert addr < 1024 or addr % 1024 > 1020
        keys, value, pieces = keys + piece, value + more, pieces + 1
    assert (keys, value, pieces) == (bytes(3000) + b"\xc8ba", 9, 6)
    two = blob(many([(1, 0, 0), (2, 0, 0)]) + follow(97), 1)
    assert states_of(two).chain(len(two) - 17) == (b"a", len(two) - 18, 0)
    assert states_of(two).chain(len(two) - 18) == (b"", len(two) - 18, 0)
    assert states_of(two).chain(0) == (b"", 0, 0)


@given(st.integers(0, 255), st.integers(0, 2**40), st.one_of(st.just(0), st.integers(0, TOP)))
def test_single_states_are_written(key: int, delta: int, output: int) -> None:
    sizes = max(1, -(-delta.bit_length() // 8)), -(-output.bit_length() // 8)
    assert encode_single(key, delta, output) == one(key, delta, output, sizes=sizes)
    assert NEXT[key] == follow(key)


@given(st.data())
def test_other_states_are_written(data: st.DataObject) -> None:
    keys = bytes(sorted(data.draw(st.sets(st.integers(0, 255), max_size=256))))
    top = data.draw(st.sampled_from([0, 1, 2**8, 2**16 - 1, 2**63, TOP]))
    deltas = [data.draw(st.integers(0, 2**17)) for _ in keys]
    outputs = [data.draw(st.integers(0, top)) for _ in keys]
    final = data.draw(st.booleans())
    output = data.draw(st.integers(0, top)) if final else 0
    size = max((max(1, -(-delta.bit_length() // 8)) for delta in deltas), default=0)
    output_size = max(-(-value.bit_length() // 8) for value in (output, *outputs))
    edges = list(zip(keys, deltas, outputs, strict=True))
    wanted = many(edges, final=output if final else None, sizes=(size, output_size))
    assert encode_many(final, output, keys, deltas, outputs) == wanted


@given(dictionaries, st.binary(max_size=100))
@example({}, bytes(range(256)))
def test_one_and_many_agree(items: dict[bytes, int], tail: bytes) -> None:
    """From every address of a blob and some noise, whatever is there."""
    data = blob(naive_build(items)[16:-16] + tail, 1)
    states = states_of(data)
    good: list[int] = []
    wanted: list[State] = []
    for addr in range(16, len(data) - 16):
        try:
            state = states.parse(addr)
        except NotCanonical as error:
            with pytest.raises(NotCanonical) as caught:
                table(states, [*good, addr])
            assert str(caught.value) == str(error)
            continue
        good.append(addr)
        wanted.append(plain(state))
        assert [states.find(addr, key) for key in state.inputs] == list(zip(state.targets, state.outputs, strict=True))
        assert states.final(addr) == (state.output if state.final else None)
    assert table(states, good) == wanted


def test_numbers_are_little_endian() -> None:
    assert parse(little(0x1122, 2) + little(AT - 20, 2) + b"\x22\x81") == (False, 0, b"t", (20,), (0x1122,))

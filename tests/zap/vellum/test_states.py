"""One state: what each form means, what is wrong with it, alone and among many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cases import each
from dvcodec.core.cursor import Cursor
from dvcodec.core.errors import NotCanonical
from dvcodec.zap.vellum import State, States, encode_many
from samples.zap.vellum import TOP, blob, dictionaries, follow, many, naive_build, one

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


@each("over", [*range(1, 16), 17, 1000, 2**31, 2**32 - 1, 2**32, 2**63 - 300, 2**63, TOP - AT - 9])
def test_targets_outside(over: int) -> None:
    """Beyond the lowest address, the room of the states ends; address 0 alone is something."""
    delta = AT - 16 + over if over < 16 else AT + over - 16
    for state in (one(97, delta, sizes=(8, 0)), many([(1, 0, 0), (2, delta, 0)], sizes=(8, 0))):
        bottom = AT
        error = refused(state, "target of a state")
        assert (error.expected, error.actual) == ("0 or an address of at least 16", bottom - delta)


def test_a_next_state_without_a_state_below() -> None:
    for state in (follow(ord("t")), follow(200)):
        states = states_of(blob(state, 1))
        addr = 15 + len(state)
        for read in (states.parse, states.chain, lambda addr, states=states: table(states, [addr])):
            with pytest.raises(NotCanonical, match="target of a state: expected 0 or an address of at least 16, found"):
                read(addr)


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

"""Decision trees become programs that decide the same, whatever their shape and size."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opensafe.warden.sandbox import bpf
from tests.unit.warden.bpf_machine import Machine, data

WORD = 0xFFFFFFFF
EXDEV, ENOSYS = bpf.errno(18), bpf.errno(38)

values = st.one_of(st.integers(0, 40), st.integers(0, WORD), st.sampled_from([0, 1, 2**31, WORD - 1, WORD]))
verdicts = st.recursive(
    st.sampled_from([bpf.ALLOW, bpf.KILL_PROCESS, EXDEV, ENOSYS]),
    lambda inner: st.builds(
        bpf.Switch,
        offset=st.sampled_from([bpf.NUMBER, bpf.ARCHITECTURE, *map(bpf.argument, range(6))]),
        cases=st.dictionaries(values, inner, max_size=12),
        default=inner,
        mask=st.sampled_from([WORD, 0xF, 0x7E020000]),
        frequent=st.sampled_from([0, 30, 2000]),
    ),
    max_leaves=30,
)


def decided(verdict, packet):
    """The tree, read as it is written."""
    while isinstance(verdict, bpf.Switch):
        (word,) = struct.unpack_from("<I", packet, verdict.offset)
        verdict = verdict.cases.get(word & verdict.mask, verdict.default)
    return verdict


def asked(verdict):
    """Every value that a tree names, and its neighbours."""
    if isinstance(verdict, int):
        return {0, WORD}
    named = set().union(asked(verdict.default), *map(asked, verdict.cases.values()))
    return named | {(value + near) & WORD for value in verdict.cases for near in (-1, 0, 1)}


@given(verdicts, st.data())
def test_a_program_decides_as_its_tree(verdict, draw):
    machine = Machine(bpf.compiled(verdict))
    word = st.one_of(st.sampled_from(sorted(asked(verdict))), st.integers(0, WORD))
    for _ in range(20):
        packet = data(draw.draw(word), [draw.draw(word) for _ in range(6)], arch=draw.draw(word))
        assert machine.run(packet)[0] == decided(verdict, packet)


@pytest.mark.parametrize("apart", [2, 3])
def test_a_program_longer_than_a_jump_reaches_decides_the_same(apart):
    cases = {number: bpf.errno(1 + number % 97) for number in range(0, 4000, apart)}
    machine = Machine(bpf.compiled(bpf.Switch(bpf.NUMBER, cases, bpf.ALLOW)))
    assert len(machine.instructions) > 2000
    assert all(machine.answer(number) == cases.get(number, bpf.ALLOW) for number in range(4100))


def test_long_jumps_to_other_looks_work_too():
    """Every second number has a switch of its own, too large to be jumped over at once."""
    inner = {
        number: bpf.Switch(bpf.argument(0), {value: bpf.errno(number % 50) for value in range(0, 300, 2)}, EXDEV)
        for number in range(0, 12, 2)
    }
    tree = bpf.Switch(bpf.NUMBER, inner, ENOSYS)
    machine = Machine(bpf.compiled(tree))
    for number in range(14):
        for value in (0, 1, 150, 298, 299, WORD):
            packet = data(number, [value])
            assert machine.run(packet)[0] == decided(tree, packet)


def test_the_program_is_the_same_however_the_cases_are_ordered():
    cases = {number: bpf.errno(number % 3) for number in range(50)}
    backwards = dict(reversed(cases.items()))
    assert bpf.compiled(bpf.Switch(0, cases, EXDEV)) == bpf.compiled(bpf.Switch(0, backwards, EXDEV))


def test_a_range_costs_one_comparison_and_a_verdict_one_return():
    program = bpf.compiled(bpf.Switch(bpf.NUMBER, dict.fromkeys(range(10, 400), bpf.ALLOW), EXDEV))
    assert len(program) // 8 == 1 + 2 + 2


def test_what_is_asked_most_is_answered_first():
    cases = dict.fromkeys(range(0, 400, 2), bpf.ALLOW)
    weighed, even = (
        Machine(bpf.compiled(bpf.Switch(bpf.NUMBER, cases, EXDEV, frequent=frequent))) for frequent in (2000, 0)
    )
    assert weighed.run(data(1500))[1] == 3 < even.run(data(1500))[1]


def test_the_search_is_balanced():
    machine = Machine(bpf.compiled(bpf.Switch(bpf.NUMBER, dict.fromkeys(range(0, 400, 2), bpf.ALLOW), EXDEV)))
    assert max(machine.run(data(number))[1] for number in range(400)) <= 2 + 9

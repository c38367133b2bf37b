"""Profiles are compiled whole: lists that don't overlap, within the kernel's size, once, as libseccomp would."""

import errno
import itertools
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opensafe.errors import InvalidArgument
from opensafe.warden.sandbox import bpf, seccomp
from opensafe.warden.sandbox.profiles import GUARD, PROFILES
from opensafe.warden.sandbox.syscalls import NUMBERS
from tests.unit.warden import libseccomp_reference
from tests.unit.warden.bpf_machine import I386, X86_64, X86_64_BIG_ENDIAN, Machine

RECORD = 8
MAX_RECORDS = 4096
X32 = 0x40000000
WORD = 0xFFFFFFFF

FILTERS = {
    **{name: (profile, seccomp.DENIED) for name, profile in PROFILES.items()},
    "guard": (GUARD, errno.EPERM),
}


@pytest.fixture(scope="module", params=FILTERS)
def both(request):
    """Our program of a filter, libseccomp's, and the filter."""
    profile, denied = FILTERS[request.param]
    ours = Machine(bpf.compiled(seccomp.decisions(profile, denied)))
    return ours, Machine(libseccomp_reference.program(profile, denied)), profile


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_compiles_to_whole_records_that_fit(name):
    program = seccomp.program(name)
    assert len(program) % RECORD == 0
    assert 0 < len(program) // RECORD <= MAX_RECORDS
    assert seccomp.program(name) is program


def test_a_pipe_carries_the_whole_program_and_ends():
    with seccomp.profile_pipe("default") as reader, open(reader, "rb", closefd=False) as file:
        assert file.read() == seccomp.program("default")


@pytest.mark.parametrize("name", PROFILES)
def test_no_call_is_in_two_lists(name):
    profile = PROFILES[name]
    lists = (profile.allowed, profile.conditional, profile.unavailable, profile.fatal)
    for one, other in itertools.combinations(lists, 2):
        assert one & other == set()


@pytest.mark.parametrize(
    "name",
    [
        "bpf",
        "kexec_load",
        "init_module",
        "finit_module",
        "delete_module",
        "mount",
        "umount2",
        "setns",
        "pivot_root",
        "reboot",
        "swapon",
    ],
)  # fmt: skip - a list of words
def test_g49_what_no_honest_program_calls_is_fatal_in_every_profile(name):
    assert all(name in profile.fatal for profile in PROFILES.values())


@pytest.mark.parametrize("name", ["ptrace", "unshare", "chroot", "keyctl", "process_vm_readv", "seccomp", "mknod_x"])
def test_what_is_in_no_list_is_left_to_the_default(name):
    for profile in PROFILES.values():
        assert name not in profile.allowed | profile.conditional | profile.unavailable | profile.fatal


def test_the_guard_lets_no_program_load_code_into_the_kernel():
    assert GUARD.allowed.isdisjoint(
        {"bpf", "init_module", "finit_module", "kexec_load", "reboot", "swapon", "add_key", "keyctl"}
    )


@pytest.mark.parametrize("name", ["", "none", "Default", "../default"])
def test_an_unknown_profile_is_refused(name):
    with pytest.raises(InvalidArgument):
        seccomp.program(name)


def test_the_numbers_are_libseccomp_s():
    for name, number in NUMBERS.items():
        assert libseccomp_reference.number(name) == number


def test_the_numbers_are_the_kernel_headers():
    """Those of the host, which may be older than the table."""
    header = pathlib.Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip("the kernel's headers are not installed")
    lines = [line.split() for line in header.read_text().splitlines() if line.startswith("#define __NR_")]
    assert {name.removeprefix("__NR_"): int(number) for _, name, number in lines}.items() <= NUMBERS.items()


def test_every_number_answers_as_libseccomp_s_filter(both):
    ours, reference, _ = both
    for number in (*range(601), 2000, 2001, X32 - 1, 0x7FFFFFFF, 0x80000000, WORD):
        assert ours.answer(number) == reference.answer(number), number


def test_x32_and_other_architectures_are_refused_as_libseccomp_s_filter_does(both):
    ours, reference, _ = both
    refused = ours.answer(WORD)
    for number in range(601):
        assert ours.answer(X32 + number) == reference.answer(X32 + number) == refused
        for arch in (I386, X86_64_BIG_ENDIAN, 0, WORD, X86_64 - 1, X86_64 + 1):
            assert ours.answer(number, arch=arch) == reference.answer(number, arch=arch) == refused


def test_every_allowed_call_is_allowed_and_every_fatal_one_kills(both):
    """The benign twin: both programs could agree on refusing all."""
    ours, _, profile = both
    assert {ours.answer(NUMBERS[name]) for name in profile.allowed} == {bpf.ALLOW}
    assert {ours.answer(NUMBERS[name]) for name in profile.fatal} <= {bpf.KILL_PROCESS}
    assert {ours.answer(NUMBERS[name]) for name in profile.unavailable} <= {bpf.errno(errno.ENOSYS)}


def near(switch):
    """What a switch and those below it name, the neighbours of each, and each with another bit."""
    words = {0, 1, WORD, 0x7FFFFFFF, 0x80000000}
    switches = [switch]
    while switches:
        one = switches.pop()
        switches += [verdict for verdict in one.cases.values() if not isinstance(verdict, int)]
        for value in one.cases:
            words |= {(value + step) & WORD for step in (-1, 0, 1)} | {value ^ (1 << bit) for bit in range(0, 32, 3)}
    return sorted(words)


@pytest.mark.parametrize("name", sorted(PROFILES["default"].conditional))
def test_arguments_answer_as_in_libseccomp_s_filter(name):
    profile, denied = FILTERS["default"]
    ours = Machine(seccomp.program("default"))
    reference = Machine(libseccomp_reference.program(profile, denied))
    answers = set()
    words = near(seccomp.BY_ARGUMENT[name])
    for position in range(3):
        for others in ([0, 0, 0], [1, 1, 0], [2, 0x80801, 17], [16, 3, 0], [16, 2, 12]):
            for high in (0, 1, 0x80000000):
                for word in words:
                    arguments = [*others]
                    arguments[position] = high << 32 | word
                    answer = ours.answer(NUMBERS[name], arguments)
                    assert answer == reference.answer(NUMBERS[name], arguments), arguments
                    answers.add(answer)
    assert answers == {bpf.ALLOW, bpf.errno(errno.EXDEV)}


PROGRAMS = Machine(seccomp.program("default")), Machine(libseccomp_reference.program(*FILTERS["default"]))


@given(
    st.sampled_from(sorted(PROFILES["default"].conditional)),
    st.lists(st.integers(0, 2**64 - 1), min_size=6, max_size=6),
)
def test_any_arguments_answer_as_in_libseccomp_s_filter(name, arguments):
    ours, reference = PROGRAMS
    assert ours.answer(NUMBERS[name], arguments) == reference.answer(NUMBERS[name], arguments)


def test_a_rule_for_arguments_stands_for_every_call_that_needs_one():
    assert all(profile.conditional <= seccomp.BY_ARGUMENT.keys() for profile in PROFILES.values())


def test_ours_is_the_shorter_one(both):
    ours, reference, _ = both
    assert len(ours.instructions) < len(reference.instructions)

"""Profiles are compiled whole: lists that don't overlap, within the kernel's size, once."""

import itertools

import pytest

from opensafe.errors import InvalidArgument
from opensafe.warden.sandbox import seccomp
from opensafe.warden.sandbox.profiles import GUARD, PROFILES

RECORD = 8
MAX_RECORDS = 4096


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
    assert GUARD.isdisjoint(
        {"bpf", "init_module", "finit_module", "kexec_load", "reboot", "swapon", "add_key", "keyctl"}
    )


@pytest.mark.parametrize("name", ["", "none", "Default", "../default"])
def test_an_unknown_profile_is_refused(name):
    with pytest.raises(InvalidArgument):
        seccomp.program(name)

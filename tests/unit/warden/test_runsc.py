"""The version gate and the table of processes."""

import pathlib

import pytest

from opensafe.errors import DriverError, HostUnsuitable
from opensafe.warden.sandbox import runsc
from opensafe.warden.sandbox.driver import GuestProcess, descendants, targets

HEADER = b"UID       PID       PPID      PGID      C         TTY       STIME     TIME      CMD\n"


@pytest.fixture
def printing(tmp_path):
    """A program that prints this as its version."""

    def make(text: str) -> pathlib.Path:
        path = tmp_path / "runsc"
        path.write_text(f"#!/bin/sh\nprintf '%s\\n' '{text}' 'spec: 1.2.1'\n")
        path.chmod(0o755)
        return path

    return make


@pytest.mark.parametrize(
    "version",
    [
        "release-20260817.0",
        "release-20261101.1",
        "v0.0.0-20260905035102-160fafc42237",
        "v1.2.4-0.20270101000000-0123456789ab",
    ],
)
async def test_a_build_with_the_fix_is_accepted(printing, version):
    assert await runsc.check_version(printing(f"runsc version {version}")) == version


@pytest.mark.parametrize("version", ["release-20260816.0", "release-20221205.0", "v0.0.0-20260816235959-160fafc42237"])
async def test_an_older_build_is_refused_and_both_dates_are_named(printing, version):
    with pytest.raises(HostUnsuitable, match=rf"too old; got {version} of 20\d\d-\d\d-\d\d; limit 2026-08-17"):
        await runsc.check_version(printing(f"runsc version {version}"))


@pytest.mark.parametrize("text", ["runsc version VERSION_MISSING", "", "runsc version release-2026", "20270101"])
async def test_a_version_without_a_date_is_refused(printing, text):
    with pytest.raises(HostUnsuitable, match="no dated version"):
        await runsc.check_version(printing(text))


async def test_a_runsc_that_is_missing_is_refused(tmp_path):
    with pytest.raises(HostUnsuitable, match="can't be run"):
        await runsc.check_version(tmp_path / "none")


def test_the_table_is_read():
    table = HEADER + b"990  1  0  1  0  ?  19:05  0s  init\n1000 5 4 5 0 ? 19:05 10ms sleep\n"
    assert runsc._listed(table) == (GuestProcess(1, 0, "init"), GuestProcess(5, 4, "sleep"))


def test_a_name_with_newlines_hides_nothing_and_forges_nothing():
    name = b"\n0 9 1 1 0 ? 1"  # 15 bytes at most
    assert len(name) <= 15
    table = HEADER + b"1000 5 4 5 0 ? 19:05 10ms " + name + b"\n1000 6 4 5 0 ? 19:05 10ms x\n"
    assert runsc._listed(table) == (GuestProcess(5, 4), GuestProcess(6, 4, "x"))


def test_a_table_of_something_else_is_a_driver_error():
    with pytest.raises(DriverError):
        runsc._listed(HEADER + b"a b c d e f g h i\n")


@pytest.mark.parametrize(
    ("runner_name", "found"),
    [("run:3", (3,)), ("run:4", (4,)), ("run", ()), ("run:9", ()), ("run:6", ()), ("run:03", ()), ("", ())],
)
def test_the_program_is_the_one_that_its_runner_names_and_below_it(runner_name, found):
    processes = [
        GuestProcess(1, 0, "init"),
        GuestProcess(2, 0, runner_name),
        GuestProcess(3, 2, "run:4"),
        GuestProcess(4, 3, "sh"),
        GuestProcess(5, 0, "run:6"),
        GuestProcess(6, 5, "other"),
    ]
    assert targets(processes, 2, whole_tree=False) == found
    assert targets(processes, 2, whole_tree=True) == (3, 4)


@pytest.mark.parametrize(
    ("tree", "root", "below"),
    [
        ({1: 0, 2: 0, 3: 2, 4: 3, 5: 3}, 2, {3, 4, 5}),
        ({1: 0, 2: 0, 3: 0, 4: 3}, 2, set()),  # a neighbour's child
        ({1: 0, 2: 0, 3: 2}, 3, set()),  # not a program of the sentry's: its pid came again
        ({1: 0, 2: 0}, 9, set()),
        ({1: 0, 2: 0, 3: 4, 4: 3}, 2, set()),  # a loop beside
        ({2: 0, 3: 2, 4: 3, 0: 4}, 2, {3, 4, 0}),  # a loop through the root's own parent
        ({2: 0, 1: 0}, 1, set()),
    ],
)
def test_descendants(tree, root, below):
    assert set(descendants([GuestProcess(pid, ppid) for pid, ppid in tree.items()], root)) == below

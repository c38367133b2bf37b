"""What in the host's counts is a breach, and what a control must do, without a sandbox."""

import pytest

from opensafe._proto.v1 import session_pb2
from opensafe.proof import mutants
from opensafe.proof.escape import wire
from opensafe.proof.escape.probe import Run
from opensafe.proof.escape.resource import guest_rows, peer, weak
from opensafe.proof.escape.resource.counters import Group
from opensafe.proof.escape.resource.daemon_rows import against
from opensafe.proof.escape.resource.daemons import Kind
from opensafe.proof.escape.resource.guest import Seen, busiest
from opensafe.warden.sandbox.limits import Cgroup

MIB = 1 << 20

HELD = {
    guest_rows.FORKS: Seen(tasks=128, refused_tasks=3, ended="pids"),
    guest_rows.THREADS: Seen(tasks=34),
    guest_rows.MEMORY: Seen(memory=192 * MIB + 4096, killed=1, ended="memory"),
    guest_rows.TEMPORARY: Seen(grown=17 * MIB),
    guest_rows.WORKSPACE: Seen(grown=-4096),
    guest_rows.INODES: Seen(inodes=12),
    guest_rows.CORES: Seen(cores=0.17, throttled=20),
}
BREACHED = {
    guest_rows.FORKS: Seen(tasks=129),
    guest_rows.THREADS: Seen(tasks=298),
    guest_rows.MEMORY: Seen(memory=194 * MIB),
    guest_rows.TEMPORARY: Seen(grown=96 * MIB),
    guest_rows.WORKSPACE: Seen(grown=48 * MIB),
    guest_rows.INODES: Seen(inodes=20_000),
    guest_rows.CORES: Seen(cores=0.24),
}


@pytest.mark.parametrize("guest", HELD)
def test_counts_within_the_limits_are_no_breach_and_name_what_stopped_it(guest):
    assert guest.row.found(HELD[guest]) == ""
    assert guest.row.layer(HELD[guest]) or guest.row.own(HELD[guest])


def test_what_the_group_did_not_stop_is_not_said_to_be_stopped_by_it():
    assert guest_rows.THREADS.row.layer(Seen(tasks=34)) == ""
    assert guest_rows.MEMORY.row.layer(Seen(memory=100 * MIB)) == ""


@pytest.mark.parametrize("guest", BREACHED)
def test_counts_beyond_them_are(guest):
    assert guest.row.found(BREACHED[guest])


@pytest.mark.parametrize("mutant", [*weak.FRONT, *weak.WARDEN, *weak.RECORDLESS], ids=lambda mutant: mutant.id)
def test_every_fault_can_be_planted(mutant):
    mutants.check(mutant)


def tried(*held):
    """A try that is stopped in the daemons of these kinds."""

    async def run(_, kind):
        return Run(began=True, finished=True, found="" if kind in held else "too many", layer=f"{kind} stops it")

    return run


def test_a_share_of_the_processors_that_was_not_met_proves_nothing():
    assert guest_rows.CORES.row.layer(Seen(cores=0.1)) == ""


@pytest.mark.parametrize(
    ("samples", "most"),
    [
        ([], 0.0),
        ([(1.0, 5.0)], 0.0),
        ([(1.0, 5.0), (1.5, 5.5)], 1.0),
        ([(0.0, 0.0), (0.5, 0.0), (1.0, 1.0), (1.5, 2.0), (3.0, 2.0)], 2.0),
    ],
)
def test_the_most_processors_over_a_second(samples, most):
    assert busiest(samples) == most


async def test_each_try_is_made_as_shipped_and_the_last_behind_what_is_open_too():
    made = against(tried(Kind.SHIPPED), tried(Kind.SHIPPED, Kind.FRONT_OPEN), behind="a cap")
    runs = [await attempt(None) for attempt in made["attempts"]]
    assert [run.opened for run in runs] == [(), (), ("a cap",)]
    assert [run.layer for run in runs] == ["shipped stops it", "shipped stops it", "front open stops it"]
    assert [run.found for run in runs] == ["", "", ""]


async def test_a_control_of_several_tries_must_let_every_one_through():
    whole = await against(tried(), tried())["weak"](None)
    assert whole.found == "too many; too many"
    half = await against(tried(), tried(Kind.WEAK))["weak"](None)
    assert (half.found, half.fault) == ("", "weak stops it")


def test_a_neighbour_s_longest_wait_counts_from_the_beginning_to_now():
    assert peer.longest(10.0, [1.0, 11.0, 14.0], 15.0) == 3.0
    assert peer.longest(10.0, [1.0, 11.0], 20.0) == 9.0
    assert peer.longest(10.0, [], 12.0) == 2.0


def test_a_message_made_by_hand_is_the_same_on_the_wire():
    made = session_pb2.CreateSessionRequest(agent="a" * 300, conversation_id="c").SerializeToString()
    assert wire.message(f1="a" * 300, f2="c") == made


def test_a_kernel_that_does_not_count_is_an_error(tmp_path):
    texts = {"pids.events": "max 2", "memory.peak": "9", "memory.stat": "anon 1\nshmem 5", "cgroup.procs": ""}
    for name, text in (texts | {"memory.events": "oom_kill 1", "cpu.stat": "nr_throttled 3"}).items():
        (tmp_path / name).write_text(f"{text}\n")
    group = Group(Cgroup({"unified": tmp_path}, unified=True))
    with pytest.raises(FileNotFoundError, match=r"pids\.peak"):
        group.counts()
    (tmp_path / "pids.peak").write_text("7\n")
    counts = group.counts()
    assert (counts.tasks, counts.refused_tasks, counts.memory, counts.shared_memory) == (7, 2, 9, 5)
    assert (counts.killed, counts.throttled, counts.cpu_s) == (1, 3, 0)

"""Rollouts over three hosts, each a Ray node with a daemon of its own, of which one dies in the middle."""

import asyncio
import json
import pathlib
from collections import Counter

import pytest

from opensafe.audit.segment import read_lines, segment_paths
from tests.harness.ray_driver import driven, named

pytestmark = [pytest.mark.root, pytest.mark.runsc]

#: The second has fewer sandboxes than Ray believes.
CAPS = ["", "sandboxes = 2", ""]
SLOTS = [3, 4, 4]


class Seen:
    """What the driver saw, and the daemons' own records of it."""

    def __init__(self, told, output, daemons, processes):
        self.told, self.output, self.daemons, self.processes = told, output, daemons, processes
        #: Commands that were executed, by the wardens' ledgers and the decisions these name, over all hosts.
        self.executed = Counter(command for daemon in daemons for command in _executed(daemon))


def _records(daemon, kind):
    for path in segment_paths(daemon.state):
        for line in read_lines(path, live=True):
            record = json.loads(line)
            if record.get("kind") == kind:
                yield record


def _decisions(daemon):
    return _records(daemon, "decision")


def _outcome(daemon, decision):
    [record] = [record for record in _records(daemon, "outcome") if record["decision_id"] == decision]
    return record["outcome"]["kind"]


def _executed(daemon):
    commands = {
        record["exec_id"]: record["input"]["call"]["arguments"].get("command", "")
        for record in _decisions(daemon)
        if record.get("exec_id") and record["input"].get("call")
    }
    for line in daemon.ledger():
        entry = json.loads(line)
        if entry["kind"] == "start" and entry["exec_id"] in commands:
            yield commands[entry["exec_id"]]


@pytest.fixture(scope="module")
def seen(made_daemons):
    daemons = made_daemons
    places = [f"{daemon.socket_of('agent')},{slots}" for daemon, slots in zip(daemons, SLOTS, strict=True)]
    driver = pathlib.Path(__file__).with_name("driver.py")
    with driven(driver, *places, str(daemons[-1].pid), timeout=100) as (directory, said):
        daemons[-1].kill()
        yield Seen(json.loads((directory / "seen.json").read_text()), said, daemons, named(directory))


def test_each_node_with_the_resource_is_a_host(seen):
    assert sorted(slots for slots, _ in seen.told["hosts"]) == sorted(SLOTS)
    assert all(lost == "" for _, lost in seen.told["hosts"])


def test_where_nobody_answers_it_says_what_was_tried(seen):
    told = seen.told["one host"]
    assert "/run/opensafe/principals/nobody/opensafe.sock is not there" in told["nobody"]
    assert "Ray has no node with the resource 'x'" in told["nothing"]


def test_claims_wait_in_bounds_and_one_called_off_leaves_nothing(seen):
    told = seen.told["one host"]
    assert told["full"].startswith("too many claims wait; got 0; limit 0")
    assert told["hosts"] == [[0, 1]]


def test_a_claim_does_what_a_sandbox_does(seen):
    told = seen.told["everyday"]
    assert told["bash"] == "textEVERYDAY\n"
    assert told["exec"] == "typed"
    assert told["read"] is True


def test_what_goes_wrong_is_told_apart_and_what_was_not_executed_is_known(seen):
    told = seen.told["everyday"]
    assert told["denied"] == ["Denied", "not executed"]
    assert told["rule"][0] == "egress.domain.allowlist"
    assert told["rule"][1] == "evil.example.com"
    assert told["rule"][2]
    assert told["failed"] == ["CommandFailed", "ended"]
    assert told["missing"] == ["CommandFailed", "ended"]
    assert told["unknown"] == ["UnknownTool", "not executed"]
    assert told["malformed"] == ["InvalidArgument", "not executed"]
    assert told["large"][1] == "not executed"


def test_a_call_that_nobody_waits_for_any_more_is_ended(seen):
    ends = [
        _outcome(daemon, record["decision_id"])
        for daemon in seen.daemons
        for record in _decisions(daemon)
        if "touch late" in str((record["input"].get("call") or {}).get("arguments"))
    ]
    assert ends == ["cancelled"]


def test_calls_stand_in_the_drivers_trace(seen):
    traces = {
        record["trace_id"]
        for daemon in seen.daemons
        for record in _decisions(daemon)
        if "EVERYDAY" in str((record["input"].get("call") or {}).get("arguments"))
    }
    assert traces == {seen.told["everyday"]["trace"]}


def test_a_call_outlives_the_actor_that_sent_it_and_is_not_sent_twice(seen):
    told = seen.told["actors killed"]
    assert told["killed"] == len(SLOTS)
    assert told["stdout"] == "KILLED\n"
    assert told["lost"] == ["", "", ""]
    assert sum(count for command, count in seen.executed.items() if "KILLED" in command) == 1


def test_every_rollout_is_accounted_for_exactly_once(seen):
    told = seen.told["node killed"]
    outcomes = {outcome["item"]: outcome for outcome in told["outcomes"]}
    assert [outcome["index"] for outcome in sorted(told["outcomes"], key=lambda one: one["index"])] == list(range(24))
    before, between, within, also_before = told["there"][:4]
    assert {item for item, outcome in outcomes.items() if outcome["status"] == "lost"} == {between, within}
    assert {item for item, outcome in outcomes.items() if outcome["attempts"] > 1} == {before, also_before}
    assert outcomes[between]["calls"][0] == ["Bash", "ended"]
    assert sorted(outcomes[within]["calls"]) == [["Bash", "ended"], ["Bash", "ended"], ["Bash", "sent"]]
    for item, outcome in outcomes.items():
        if item in (between, within):
            assert outcome["error"] == "HostLost"
        else:
            assert (outcome["status"], outcome["value"]) == ("done", f"ROLLOUT-{item}-2\n")


def test_no_daemon_executed_anything_twice(seen):
    told = seen.told["node killed"]
    _, between, within, _ = told["there"][:4]
    counts = {command: count for command, count in seen.executed.items() if "ROLLOUT-" in command}
    expected = {f"echo ROLLOUT-{item}-{step}": 1 for item in range(24) for step in (1, 2)}
    del expected[f"echo ROLLOUT-{between}-2"], expected[f"echo ROLLOUT-{within}-2"]
    expected[f"echo ROLLOUT-{within}-2; touch started; sleep 60"] = 1
    assert counts == expected


def test_a_host_takes_no_more_than_its_daemon_does(seen):
    told = seen.told["node killed"]
    by_slots = {(slots, lost): (used, limit) for lost, used, limit, slots in told["hosts"]}
    assert by_slots.pop((4, False)) in ((0, 2), (0, 3))  # after some claims one more is tried
    assert by_slots == {(3, False): (0, 3), (4, True): (0, 4)}
    assert told["left"] == [0, 0]


def test_no_sandbox_is_left_on_the_hosts_that_are(seen):
    async def left(daemon):
        async with daemon.client() as client:
            return await client.list_sandboxes()

    assert [asyncio.run(left(daemon)) for daemon in seen.daemons[:-1]] == [(), ()]


def test_the_guides_programs_run(seen):
    ten_lines, claims = seen.told["guide"]
    assert sorted(ten_lines.splitlines()) == ["0 done 2 None", "1 done 42 None", "2 done  None"]
    assert claims.startswith("x86_64\n\negress.domain.allowlist\nevil.example.com\n")


def test_nothing_of_ray_is_left(seen):
    assert seen.processes == []

"""Who may read what the root process leaves on the host: only what is meant for others."""

import re
import stat

import pytest

from opensafe.warden.client import WardenClient
from opensafe.warden.warden import Warden
from tests.harness.daemon import Daemon
from tests.system.warden.support import Caller, Front, Host

#: Below the state directory (documented in docs/architecture.md), by mode.
STATE = {
    r"audit": 0o750,
    r"audit/(checkpoint|checkpoints\.jsonl|key\.pub)": 0o640,
    r"audit/segment-\d+\.jsonl": 0o640,
    r"checkpoint\.key": 0o600,
    r"frontier\.json": 0o600,
    r"instance": 0o600,
    r"ledger\.jsonl": 0o640,
    r"warden\.db(-wal|-shm)?": 0o600,
}


def modes(directory):
    return {str(path.relative_to(directory)): stat.S_IMODE(path.lstat().st_mode) for path in directory.rglob("*")}


def reachable(directory):
    """What anybody can get at: only through directories that let others in."""
    for path in directory.iterdir():
        mode = path.lstat().st_mode
        if mode & (stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH):
            yield str(path.relative_to(directory))
            if stat.S_ISDIR(mode):
                yield from (f"{path.name}/{one}" for one in reachable(path))


@pytest.fixture
def host(native):
    host = Host(native)
    yield host
    left = host.leftovers()
    host.remove()
    assert left == []


async def test_nothing_of_the_warden_s_is_for_others(host):
    async with await Warden.start(host.config) as warden:
        client = WardenClient(warden.connect())
        caller = await Caller(client, Front(warden.audit)).create()
        for _ in range(3):
            assert (await caller.sh("echo ran")).text == "ran\n"
        await warden._checkpoints.turn(at_once=True)
        state = modes(host.layout.state)
        # Everything is there, the write-ahead log of the living database included.
        for pattern, mode in STATE.items():
            assert {state.pop(name) for name in list(state) if re.fullmatch(pattern, name)} == {mode}
        assert state == {}
        assert list(reachable(host.layout.run)) == []
        assert modes(host.layout.run).keys() > {"runsc", "bundles", "netns"}
        await client.close()


async def test_of_a_whole_daemon_others_reach_only_bundles_keys_and_the_children_s_code():
    with Daemon() as daemon:
        async with daemon.client() as client:
            session = await client.create_session("modes")
            sandbox = (await client.create_sandbox(session)).sandbox_id
            await client.run_call(session, sandbox, "one", "Exec", {"argv": ["/bin/true"]})
        state, run = set(reachable(daemon.state)), set(reachable(daemon.run))
    assert {name.partition("/")[0] for name in state} == {"bundles", "keys"}
    assert {"bundles", "keys"} < state
    # Settings and log are the harness's own.
    assert {name.partition("/")[0] for name in run} == {"code", "principals", daemon.settings.name, daemon.log.name}
    assert not any(name.startswith("principals/") for name in run)

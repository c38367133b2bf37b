"""A warden that was killed leaves things behind; the next one on the same directories removes all and only those."""

import contextlib
import pathlib
import signal
import subprocess
import sys

import msgspec
import pytest

from opensafe.errors import HostUnsuitable, StartError
from opensafe.warden.client import WardenClient
from opensafe.warden.warden import Warden
from tests.system.warden.dying_warden import STEPS
from tests.system.warden.support import Caller, Front, Host

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def host(native):
    host = Host(native)
    yield host
    left = host.leftovers()
    host.remove()
    assert left == []


def die_at(host, step):
    command = [
        sys.executable,
        "-m",
        "tests.system.warden.dying_warden",
        msgspec.json.encode(host.config).decode(),
        step,
    ]
    path = f"{ROOT}:{ROOT / 'supervisor'}"
    ended = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": path}, capture_output=True, timeout=60)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


@pytest.mark.parametrize("step", STEPS)
async def test_r45_a_killed_warden_leaves_nothing_after_the_next_start(host, step):
    die_at(host, step)
    if step not in ("intent",):
        assert host.leftovers() != []  # the control: there was something to remove
    async with await Warden.start(host.config) as warden:
        client = WardenClient(warden.connect())
        removed = (await client.status()).removed_at_start
        assert removed or step == "intent"
        assert await client.list_sandboxes() == ()
        caller = await Caller(client, Front(warden.audit)).create()
        assert (await caller.sh("echo well")).text == "well\n"
        await client.close()


async def test_r46_another_daemon_with_live_sandboxes_is_left_alone(host, native):
    neighbour = Host(native)
    try:
        async with await Warden.start(neighbour.config) as other:
            client = WardenClient(other.connect())
            caller = await Caller(client, Front(other.audit)).create()
            die_at(host, "start")
            async with await Warden.start(host.config) as warden:
                ours = WardenClient(warden.connect())
                assert (await ours.status()).removed_at_start
                await ours.close()
            assert (await caller.sh("echo alive")).text == "alive\n"
            await client.close()
        assert neighbour.leftovers() == []
    finally:
        neighbour.remove()


async def test_r46_two_daemons_on_one_state_directory_are_refused(host):
    async with await Warden.start(host.config) as warden:
        with pytest.raises(StartError, match="another daemon"):
            await Warden.start(host.config)
        client = WardenClient(warden.connect())
        caller = await Caller(client, Front(warden.audit)).create()
        assert (await caller.sh("echo alive")).text == "alive\n"
        await client.close()


async def test_the_ledger_outlives_its_warden_and_a_decision_stays_used(host):
    async with await Warden.start(host.config) as warden:
        client, front = WardenClient(warden.connect()), Front(warden.audit)
        caller = await Caller(client, front).create()
        spec, decision = caller.spec, None
        decision = front.decide(spec)
        await caller.delete()
        await client.create_sandbox(spec, decision)
        size = (await client.status()).ledger_size
        await client.close()
    with (host.layout.state / "ledger.jsonl").open("ab") as file:
        file.write(b'{"torn')
    async with await Warden.start(host.config) as warden:
        client = WardenClient(warden.connect())
        assert (await client.status()).ledger_size == size
        with pytest.raises(Exception, match="used before"):
            await client.create_sandbox(spec, decision)
        await client.close()


async def test_an_old_runsc_is_refused_by_name_and_date(host):
    old = host.root / "runsc"
    old.write_text("#!/bin/sh\necho runsc version release-20221205.0\n")
    old.chmod(0o755)
    paths = msgspec.structs.replace(host.config.paths, runsc=str(old))
    with pytest.raises(HostUnsuitable, match=r"release-20221205\.0 of 2022-12-05; limit 2026-08-17"):
        await Warden.start(msgspec.structs.replace(host.config, paths=paths))


@pytest.fixture
def small_disk(host):
    """The state directory on 1 MiB of its own: a function that fills it and names what to remove to have room again."""
    state = host.layout.state
    state.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", state], check=True)

    def fill():
        with contextlib.suppress(OSError), (state / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        return state / "filler"

    yield fill
    subprocess.run(["umount", state], check=True)


async def test_fs05_a_full_disk_refuses_the_start_and_room_mends_it(host, small_disk):
    die_at(host, "start")
    filler = small_disk()
    with pytest.raises(StartError, match=r"full.*make room"):
        await Warden.start(host.config)
    filler.unlink()
    async with await Warden.start(host.config) as warden:
        client = WardenClient(warden.connect())
        assert (await client.status()).removed_at_start
        await client.close()

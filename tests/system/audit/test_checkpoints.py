"""A log over several segments: signed as it grows, continued by the next life, and never signed when broken."""

import asyncio
import os

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from opensafe.audit.segment import read_lines, segment_paths
from opensafe.model import chain, merkle
from opensafe.model.checkpoint import parse_checkpoint, parse_key, parse_note
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind
from opensafe.warden import kernel

pytestmark = [pytest.mark.root, pytest.mark.runsc]

#: The smallest segments and the most checkpoints that there can be.
SETTINGS = {"audit": f"segment_bytes = {1 << 20}\ncheckpoint_s = 1\ncheckpoint_records = 1"}
LONG = "echo " + "a" * 50_000


def checkpoint(state):
    """The last one, its signature verified with the public key alone."""
    note = parse_note((state / "audit/checkpoint").read_bytes())
    key = parse_key((state / "audit/key.pub").read_text())
    [signature] = note.signatures
    Ed25519PublicKey.from_public_bytes(key.public).verify(signature.made, note.body)
    return parse_checkpoint(note.body)


def leaves(state):
    lines = [line for path in segment_paths(state) for line in read_lines(path)]
    return [bytes.fromhex(link.leaf) for link in chain.verify(lines)]


async def fill(daemon, segments):
    """Decisions until the log has so many segments; a call runs in each life."""
    async with daemon.client() as client:
        session = await client.create_session("tester")
        sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
        while len(segment_paths(daemon.state)) < segments:
            await asyncio.gather(*(client.decide(session, "Bash", {"command": LONG}) for _ in range(8)))
        done = await client.run_call(session, sandbox, "call", "Bash", {"command": "echo done"})
        assert done.stdout == b"done\n"
        await client.close_session(session)


async def test_segments_are_signed_over_two_lives_and_closed_ones_can_not_be_changed(own_daemon):
    daemon = own_daemon(**SETTINGS)
    await fill(daemon, 3)
    assert daemon.stop() == 0
    first = checkpoint(daemon.state)
    known = leaves(daemon.state)
    assert (first.size, first.root) == (len(known), merkle.root(known))
    daemon.start()
    await fill(daemon, 4)
    assert daemon.stop() == 0
    last = checkpoint(daemon.state)
    grown = leaves(daemon.state)
    assert (last.size, last.root) == (len(grown), merkle.root(grown))
    assert grown[: len(known)] == known
    path = merkle.consistency(grown, first.size)
    assert merkle.roots_by_consistency(first.size, last.size, first.root, path) == (first.root, last.root)
    *closed, current = segment_paths(daemon.state)
    for one in closed:
        with pytest.raises(PermissionError):  # as root
            os.open(one, os.O_WRONLY | os.O_APPEND)
    os.close(os.open(current, os.O_WRONLY | os.O_APPEND))


async def test_a_log_in_which_a_line_is_out_of_place_runs_nothing_more(own_daemon):
    daemon = own_daemon(**SETTINGS)
    async with daemon.client() as client:
        session = await client.create_session("tester")
        sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
        done = await client.run_call(session, sandbox, "before", "Bash", {"command": "echo 1"})
        assert done.outcome.exit_code == 0
        with segment_paths(daemon.state)[-1].open("ab") as file:
            file.write(b'{"index":0,"kind":"decision"}\n')
        for _ in range(100):
            status = await client.status()
            if status.checkpoint_failure:
                break
            await asyncio.sleep(0.1)
        assert "not intact" in status.checkpoint_failure
        after = await client.run_call(session, sandbox, "after", "Bash", {"command": "echo 1"})
        assert (after.verdict.action, after.outcome.kind) == (Action.ALLOW, OutcomeKind.NOT_STARTED)
        assert "not intact" in after.outcome.detail
    daemon.kill()
    kernel.unprotect(segment_paths(daemon.state)[-1])
    with segment_paths(daemon.state)[-1].open("rb+") as file:  # so that the next life can clear up
        file.truncate(file.read().index(b'{"index":0,"kind":"decision"}\n'))

"""The record of a site with a way out: sandboxes with and without one are judged again, a forged profile is named."""

import json
import subprocess
import sys

from opensafe.model import chain
from opensafe.model.sandbox import GATEWAY, NO_NETWORK
from opensafe.warden import kernel
from tests.harness.daemon import Daemon

UPLINK = "10.203.238.0/30"


def replay(state):
    """Findings of the command, and its exit status."""
    done = subprocess.run(
        [sys.executable, "-m", "opensafe.cli", "audit", "verify", "--state", state, "--replay", "--json"],
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)["details"]["findings"], done.returncode


async def made(daemon):
    """The network profiles of three sandboxes: by default, and asked for by name."""
    async with daemon.client() as client:
        session = await client.create_session("tester")
        asked = [await client.create_sandbox(session, network=name) for name in ("", GATEWAY, NO_NETWORK)]
        found = [one.sandbox.network for one in asked]
        await client.close_session(session)
    return found


def forge(path):
    """Let the record of one sandbox with a way out say that none was asked for, and bind all anew."""
    head, lines, left = chain.Head(), [], 1
    for line in path.read_text().splitlines():
        record = {name: value for name, value in json.loads(line).items() if name not in ("index", "prev")}
        sandbox = record.get("input", {}).get("sandbox", {})
        if left and sandbox.get("network") == GATEWAY:
            left, sandbox["network"] = 0, NO_NETWORK
        sealed = chain.seal(head, record)
        head = sealed.head
        lines.append(sealed.line + b"\n")
    path.write_bytes(b"".join(lines))


async def test_sandboxes_with_and_without_a_way_out_are_judged_again():
    daemon = Daemon(egress=f'enabled = true\nuplink = "{UPLINK}"\nresolvers = ["192.0.2.53"]')
    try:
        daemon.start()
        assert await made(daemon) == [GATEWAY, GATEWAY, NO_NETWORK]
        assert daemon.stop() == 0
        assert replay(daemon.state) == ([], 0)
        path = daemon.state / "audit/segment-000000.jsonl"
        kernel.unprotect(path)
        forge(path)
        findings, status = replay(daemon.state)
        assert status == 1
        messages = [one["message"] for one in findings if one["kind"] == "allow_not_reproduced"]
        assert len(messages) == 1
        assert "not the sandbox asked for" in messages[0]
    finally:
        left = daemon.remove()
    assert left == []

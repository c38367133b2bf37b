"""The archive of bundles is kept short, and every recorded call can still be judged again."""

import asyncio
import hashlib
import os
import sys

from opensafe.warden.prune import SPARES
from tests.harness.audit import records
from tests.harness.policy import site_bundle


async def test_a_start_removes_what_no_replay_needs_and_says_so(own_daemon, tmp_path):
    place, key = site_bundle(tmp_path)
    second, _ = site_bundle(tmp_path, number=2)
    first = hashlib.sha256(place.read_bytes()).hexdigest()
    daemon = own_daemon(bundle=place, key=key)
    async with daemon.client() as agent:
        session = await agent.create_session("tester")
        sandbox = (await agent.create_sandbox(session)).sandbox_id
        await agent.run_call(session, sandbox, "judged", "Bash", {"command": "ls"})
    daemon.stop()
    second.replace(place)
    daemon.start()  # from now on it is the second that was activated last
    daemon.stop()
    archive = daemon.state / "bundles"
    tried = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(SPARES + 3)]
    for number, digest in enumerate(tried):
        path = archive / f"{digest}.tar.gz"
        path.write_bytes(b"%d" % number)
        os.utime(path, (1000 + number, 1000 + number))
    os.utime(archive / f"{first}.tar.gz", (1, 1))
    daemon.start()
    kept = {path.name.removesuffix(".tar.gz") for path in archive.iterdir()}
    async with daemon.client("reviewer") as auditor:
        said = [r["digest"] for r in await records(auditor, 100) if r["kind"] == "bundle" and r["state"] == "removed"]
    assert said == tried[:3]
    assert kept == {first, hashlib.sha256(place.read_bytes()).hexdigest(), *tried[3:]}
    daemon.stop()
    verify = ("-m", "opensafe.cli", "audit", "verify", "--replay", "--state", str(daemon.state))
    process = await asyncio.create_subprocess_exec(sys.executable, *verify, stderr=asyncio.subprocess.PIPE)
    _, stderr = await process.communicate()
    assert process.returncode == 0, stderr.decode()

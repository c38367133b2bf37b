"""PE-16b: what one call of a session wrote is read when a later one runs it, across restarts of the daemon too."""

import asyncio
import json
import subprocess
import sys

import pytest

from opensafe import errors
from opensafe.model.decision import Action
from opensafe.model.outcome import OutcomeKind
from tests.harness.daemon import signal_process
from tests.system.exec.support import eventually

pytestmark = [pytest.mark.root, pytest.mark.runsc]

ATTACK, HONEST = "mke2fs -qF /workspace/marker 64\n", "set -e\necho ok > /workspace/marker\n"
RUN = {"command": "sh s.sh"}


def write(text):
    return {"path": "/workspace/s.sh", "content": text}


async def answers(agent, sandbox):
    """Whether a front answers."""
    try:
        return await agent.get_sandbox(sandbox)
    except errors.Unavailable:
        return None


class Calls:
    """Calls in one session and sandbox."""

    def __init__(self, agent, session, sandbox):
        self.agent, self.session, self.sandbox, self.sent = agent, session, sandbox, 0

    @classmethod
    async def begun(cls, agent):
        session = await agent.create_session("tester")
        return cls(agent, session, (await agent.create_sandbox(session)).sandbox_id)

    async def __call__(self, tool, arguments):
        self.sent += 1
        return await self.agent.run_call(self.session, self.sandbox, f"{self.session}-{self.sent}", tool, arguments)

    async def succeeds(self, tool, arguments):
        done = await self(tool, arguments)
        assert (done.outcome.kind, done.outcome.exit_code) == (OutcomeKind.EXITED, 0), (done.verdict, done.stderr)
        return done


async def test_PE_16b_what_a_call_wrote_is_judged_when_the_next_runs_it(agent):
    calls = await Calls.begun(agent)
    await calls.succeeds("Write", write(ATTACK))
    stopped = await calls("Bash", RUN)
    assert stopped.verdict.action is Action.BLOCK
    assert "tool.bash.destructive.deny" in {hit.id for hit in stopped.verdict.rules}
    await calls.succeeds("Bash", {"command": "cat s.sh"})
    await calls.succeeds("Write", write(HONEST))  # mended, it runs
    await calls.succeeds("Bash", RUN)
    await calls.succeeds("Exec", {"argv": ["sh", "s.sh"]})


async def test_PE_16b_what_failed_to_be_mended_is_still_judged(agent):
    calls = await Calls.begun(agent)
    await calls.succeeds("Bash", {"command": f"echo '{ATTACK.strip()}' > s.sh && chmod a-w s.sh"})
    await calls.succeeds("Bash", {"command": "false && echo 'echo ok' > s.sh; true"})
    assert (await calls("Bash", RUN)).verdict.action is Action.BLOCK
    await calls.succeeds("Bash", {"command": "chmod u+w s.sh && echo 'echo ok' > s.sh"})
    await calls.succeeds("Bash", RUN)


async def test_another_sessions_files_are_not_known(agent):
    first, second = await Calls.begun(agent), await Calls.begun(agent)
    await first.succeeds("Write", write(ATTACK))
    await second.succeeds("Write", write(HONEST))
    await second.succeeds("Bash", RUN)
    assert (await first("Bash", RUN)).verdict.action is Action.BLOCK


async def test_PE_16b_it_outlives_a_front_that_is_killed_and_a_daemon_that_is_stopped(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as agent:
        calls = await Calls.begun(agent)
        await calls.succeeds("Write", write(ATTACK))
        await asyncio.to_thread(signal_process, daemon.child("front"))
        await eventually(lambda: answers(agent, calls.sandbox), bool)
    async with daemon.client() as agent:
        calls.agent = agent
        stopped = await calls(
            "Bash", RUN
        )  # of a front that was killed, it may be known no more than that it was written
        assert stopped.verdict.action is not Action.ALLOW
        await calls.succeeds("Write", write(HONEST))
        await calls.succeeds("Bash", RUN)
        await calls.succeeds("Write", write(ATTACK))
    daemon.stop()
    daemon.start()
    async with daemon.client() as agent:
        calls.agent, calls.sandbox = agent, (await agent.create_sandbox(calls.session)).sandbox_id
        assert (await calls("Bash", RUN)).verdict.action is Action.BLOCK
        assert (await calls("Bash", {"command": "sh other.sh"})).verdict.action is Action.ALLOW
    daemon.stop()
    report = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "opensafe.cli", "audit", "verify", "--state", daemon.state, "--json", "--replay"],
        capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert report.returncode == 0, report.stdout + report.stderr
    assert json.loads(report.stdout)["summary"]["ok"] is True

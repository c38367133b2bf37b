"""A warden that is killed while it keeps or claims cells leaves nothing after the next start."""

import json
import pathlib
import signal
import subprocess
import sys

import msgspec
import pytest

from opensafe.config import PoolSettings
from opensafe.model.limits import SandboxLimits
from tests.system.pool.dying_pool import STEPS
from tests.system.pool.support import PROBE

ROOT = pathlib.Path(__file__).resolve().parents[3]
ENTRY = PoolSettings(ready=2, warm_up=PROBE, limits=SandboxLimits(pids=77))


def die_at(host, step):
    config = msgspec.structs.replace(host.config, pool=(ENTRY,))
    command = [sys.executable, "-m", "tests.system.pool.dying_pool", msgspec.json.encode(config).decode(), step]
    path = f"{ROOT}:{ROOT / 'supervisor'}"
    ended = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": path}, capture_output=True, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


def cells(host):
    """Under which ids cells were made so far."""
    entries = map(json.loads, (host.layout.state / "ledger.jsonl").read_text().splitlines())
    return {entry["sandbox_id"] for entry in entries if entry["kind"] == "pool"}


@pytest.mark.parametrize("step", STEPS)
async def test_r45_a_warden_killed_at_any_step_of_the_pool_leaves_nothing(host, pool, step):
    die_at(host, step)
    if step != "a cell's entry":
        assert host.leftovers() != []  # the control: there was something to remove
    before = cells(host)
    assert before != set()
    tenants = await pool({"ready": 1})
    await tenants.filled()
    assert len(tenants.containers()) == 1
    assert not before & tenants.containers()
    made = await tenants.create(require_warm=True)
    assert tenants.cell_of(made) not in before
    assert (await tenants.in_(made).run(*PROBE)).ended.value == 0

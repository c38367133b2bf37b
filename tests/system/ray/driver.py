"""A program of Ray's: a cluster on this machine whose nodes have daemons of their own, and rollouts on it.

    driver.py DIRECTORY SOCKET,SLOTS... PID_OF_THE_LAST_DAEMON

What it saw goes into DIRECTORY/seen.json. It is a program of its own, so that nothing of Ray stays in the tests'.
"""

import asyncio
import contextlib
import io
import json
import logging
import os
import pathlib
import re
import signal
import sys
import time
from typing import Any

import ray
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from ray.cluster_utils import Cluster

from opensafe.client import CommandFailed
from opensafe.errors import Denied, LimitExceeded, OpenSafeError, Unavailable
from opensafe.integrations.ray import HostLost, RolloutPool

DIRECTORY = pathlib.Path(sys.argv[1])
HOSTS = [place.split(",") for place in sys.argv[2:-1]]
VICTIM_DAEMON = int(sys.argv[-1])

#: A dead node is one in a second, not in half a minute.
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 2,
}
TRACER = TracerProvider().get_tracer("driver")


def start():
    (path, slots), *rest = HOSTS
    head = {"include_dashboard": False, "_system_config": QUICK, **_host(path, slots)}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.add_node(wait=False, **_host(path, slots)) for path, slots in rest]
    cluster.wait_for_nodes()
    _connect(cluster)
    return cluster, nodes


def _host(path, slots):
    return {"num_cpus": 0, "resources": {"opensafe": int(slots)}, "env_vars": {"OPENSAFE_SOCKET": path}}


def _connect(cluster):
    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)


async def everyday(pool):
    """What one claim can do, and what goes wrong in it."""
    seen: dict[str, Any] = {}
    with trace.use_span(TRACER.start_span("driver")) as span:
        seen["trace"] = f"{span.get_span_context().trace_id:032x}"
        async with pool.claim() as box:
            await box.write("in.txt", "text")
            await box.write("bytes", bytes(range(256)))
            seen["bash"] = (await box.bash("cat in.txt; echo EVERYDAY")).stdout
            seen["exec"] = (await box.exec(["cat"], stdin=b"typed")).stdout
            seen["read"] = (await box.read("bytes")) == bytes(range(256))
            for name, work in {
                "denied": lambda: box.bash("curl https://evil.example.com"),
                "failed": lambda: box.bash("exit 3", check=True),
                "missing": lambda: box.read("missing"),
                "unknown": lambda: box.tool("Fetch", {}),
                "malformed": lambda: box.tool("Bash", {"command": 7}),
                "large": lambda: box.write("large", "x" * 10_000_000),
            }.items():
                try:
                    await work()
                except OpenSafeError as error:
                    seen[name] = [type(error).__name__, box.calls[-1].state]
                    if isinstance(error, Denied):
                        seen["rule"] = [error.rule, error.value, error.remedy]
                    if isinstance(error, CommandFailed):
                        seen["exit"] = error.result.exit_code
            late = asyncio.create_task(box.bash("touch late; sleep 60"))
            await box.bash("until [ -e late ]; do sleep 0.05; done")
            late.cancel()
            await asyncio.gather(late, return_exceptions=True)
    return seen


async def one_host(node):
    """Pools of one node: with nobody there, with one slot and nobody who may wait, with a claim that is called off."""
    labels = {"ray.io/node-id": node._node_id}
    seen: dict[str, Any] = {}
    asked: dict[str, dict[str, Any]] = {
        "nobody": {"principal": "nobody", "node_labels": labels},
        "nothing": {"resource": "x"},
    }
    for name, options in asked.items():
        try:
            async with RolloutPool("tester", **options):
                pass
        except Unavailable as error:
            seen[name] = str(error)
    async with RolloutPool("tester", slots=1, waiting=0, node_labels=labels) as pool:
        async with pool.claim():
            try:
                await pool.claim()
            except LimitExceeded as error:
                seen["full"] = str(error)
        called_off = asyncio.ensure_future(pool.claim())
        for _ in range(20):
            await asyncio.sleep(0)
        called_off.cancel()
        await asyncio.wait([called_off])
    seen["hosts"] = [[host.used, host.slots] for host in pool.stats().hosts]
    return seen


async def actors_killed(pool):
    """Every actor dies while a call runs: the call goes on, and its answer comes by the next actor."""
    async with pool.claim() as box:
        running = asyncio.create_task(
            box.bash("echo KILLED >> runs; touch started; until [ -e go ]; do sleep 0.05; done; cat runs")
        )
        await box.bash("until [ -e started ]; do sleep 0.05; done")
        killed = _kill_actors()
        await box.bash("touch go")
        result = await running
        return {"killed": killed, "stdout": result.stdout, "lost": [host.lost for host in pool.stats().hosts]}


def _kill_actors():
    killed = 0
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cmdline").read_bytes().startswith(b"ray::HostActor") and _ours(entry):
                os.kill(int(entry.name), signal.SIGKILL)
                killed += 1
    return killed


def _ours(entry):
    """Whether it is a process below this one: other clusters are others' business."""
    while entry.name != "1":
        parent = (entry / "stat").read_text().rpartition(") ")[2].split()[1]
        if int(parent) == os.getpid():
            return True
        entry = pathlib.Path("/proc", parent)
        if parent == "0":
            return False
    return False


async def node_killed(pool, cluster, victim):
    """A node and its daemon die: of four rollouts there one has executed a call, one is within one, two have none."""
    killed, noticed, there = asyncio.Event(), asyncio.Event(), []
    ready = asyncio.Semaphore(0)

    async def rollout(box, item):
        if box.host_state.node_id == victim._node_id:
            there.append(item)
            role = there.index(item)
            if role in (0, 3):
                ready.release()
                await killed.wait()  # and the host is lost: it is certain that nothing is sent
            await box.bash(f"echo ROLLOUT-{item}-1")
            if role == 1:
                ready.release()
                await killed.wait()
            if role == 2:
                running = asyncio.create_task(box.bash(f"echo ROLLOUT-{item}-2; touch started; sleep 60"))
                await box.bash("until [ -e started ]; do sleep 0.05; done")
                ready.release()
                try:
                    await running
                except HostLost:
                    noticed.set()
                    raise
        else:
            await box.bash(f"echo ROLLOUT-{item}-1")
        return (await box.bash(f"echo ROLLOUT-{item}-2")).stdout

    async def kill():
        for _ in range(4):
            await ready.acquire()
        await asyncio.to_thread(cluster.remove_node, victim, allow_graceful=False)
        await noticed.wait()  # else the daemon might tell it before Ray does
        os.kill(VICTIM_DAEMON, signal.SIGKILL)
        killed.set()

    killing = asyncio.create_task(kill())
    outcomes = [
        {
            "item": outcome.item,
            "index": outcome.index,
            "status": outcome.status,
            "value": outcome.value,
            "error": type(outcome.error).__name__ if outcome.error else "",
            "attempts": outcome.attempts,
            "host": outcome.host,
            "calls": [[call.tool, call.state] for call in outcome.calls],
        }
        async for outcome in pool.map(rollout, range(24))
    ]
    await killing
    stats = pool.stats()
    return {
        "there": there,
        "outcomes": outcomes,
        "hosts": [[host.lost != "", host.used, host.limit, host.slots] for host in stats.hosts],
        "left": [stats.waiting, stats.unreleased],
    }


async def run(cluster, nodes):
    seen, at = {}, time.monotonic()

    def note(name, what):
        nonlocal at
        seen[name], now = what, time.monotonic()
        sys.stdout.write(f"{name}: {now - at:.1f} s\n")
        at = now

    note("one host", await one_host(nodes[0]))
    async with RolloutPool("tester") as pool:
        note("hosts", [[host.slots, host.lost] for host in pool.stats().hosts])
        note("everyday", await everyday(pool))
        note("actors killed", await actors_killed(pool))
        note("node killed", await node_killed(pool, cluster, nodes[-1]))
    note("closed", None)
    return seen


def guide(cluster):
    """The programs of docs/guides/ray.md, on what is left of the cluster."""
    text = (pathlib.Path(__file__).resolve().parents[3] / "docs/guides/ray.md").read_text()
    os.environ["RAY_ADDRESS"] = cluster.address
    told = []
    for program in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        ray.shutdown()
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(program, {})
        told.append(output.getvalue())
    return told


def main():
    begun = time.monotonic()
    cluster, nodes = start()
    sys.stdout.write(f"cluster: {time.monotonic() - begun:.1f} s\n")
    try:
        seen = asyncio.run(run(cluster, nodes))
        begun = time.monotonic()
        seen["guide"] = guide(cluster)
        sys.stdout.write(f"guide: {time.monotonic() - begun:.1f} s\n")
        (DIRECTORY / "seen.json").write_text(json.dumps(seen))
    finally:
        ray.shutdown()
        cluster.shutdown()


main()

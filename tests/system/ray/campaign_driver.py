"""A program of Ray's: a cluster of two nodes on this machine, and a campaign on it, of which a worker is killed.

    campaign_driver.py DIRECTORY RUNS SIZE

What it saw goes into DIRECTORY/seen.json. It is a program of its own, so that nothing of Ray stays in the tests'.
"""

import asyncio
import contextlib
import json
import logging
import os
import pathlib
import signal
import sys
from typing import Any

import msgspec
import ray
from ray.cluster_utils import Cluster

from opensafe.proof.campaign import campaign, figures
from opensafe.proof.campaign import cluster as engines
from opensafe.proof.campaign.progress import Progress, Settings

DIRECTORY = pathlib.Path(sys.argv[1])
SETTINGS = Settings(runs=int(sys.argv[2]), seed=23, size=int(sys.argv[3]))
NODES = 2


def workers():
    """Processes of workers below this one: other clusters are others' business."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cmdline").read_bytes().startswith(b"ray::Worker") and _ours(entry):
                yield int(entry.name)


def _ours(entry):
    while entry.name != "1":
        parent = (entry / "stat").read_text().rpartition(") ")[2].split()[1]
        if int(parent) == os.getpid():
            return True
        entry = pathlib.Path("/proc", parent)
        if parent == "0":
            return False
    return False


async def run():
    seen: dict[str, Any] = {"answers": [], "killed": 0, "within": []}
    progress = Progress(DIRECTORY, SETTINGS)
    add, ask = progress.add, engines.Place.run
    under_way = {}

    def counted(done):
        seen["answers"].append(done.number)
        return add(done)

    async def asked(place, batch):
        """The first batch that is begun once two have ended is begun by a worker that is killed then."""
        running = asyncio.ensure_future(ask(place, batch))
        under_way[batch.number] = running
        if len(progress.done) >= 2 and not seen["killed"]:
            seen["killed"] = 1
            await asyncio.sleep(0.3)
            seen["within"] = [number for number, one in under_way.items() if not one.done()]
            for pid in workers():
                with contextlib.suppress(OSError):
                    if place._notes in "".join(_files(pid)):
                        os.kill(pid, signal.SIGKILL)
                        seen["killed"] += 1
        return await running

    setattr(progress, "add", counted)  # noqa: B010 - from outside, by a name that the type checker does not follow
    setattr(engines.Place, "run", asked)  # noqa: B010 - the same
    async with engines.Cluster.open(SETTINGS.seed) as engine:
        result = await campaign.run(engine, progress, "ray", lambda *_: None)
        seen["places"] = [place.losses for place in engine.places]
    progress.close()
    return seen | {
        "summary": figures.summary(result),
        "findings": [msgspec.to_builtins(finding) for one in result.done for finding in one.findings],
        "faults": [fault for one in result.done for fault in one.faults],
    }


def _files(pid):
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            yield str(entry.readlink())


def main():
    cluster = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, "num_cpus": 0})
    try:
        for _ in range(NODES):
            cluster.add_node(wait=False, num_cpus=0, resources={"opensafe": 1})
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        (DIRECTORY / "seen.json").write_text(json.dumps(asyncio.run(run())))
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()

"""The daemon killed, and what is left of it without an owner: CP-20."""

import asyncio
import contextlib
import os
import pathlib
from functools import partial
from typing import Final

from opensafe.proof.escape import host
from opensafe.proof.escape.probe import Run, Severity
from opensafe.proof.escape.trial import Trial
from opensafe.proof.mutants import PACKAGE

from .ground import Yard
from .mutants import REAPER
from .row import row
from .site import Site

#: Nobody's names, and a link that no other daemon has.
_EGRESS: Final = '[egress]\nenabled = true\nresolvers = ["127.0.0.1"]\nuplink = "10.202.119.196/30"\n'
_SLEEP: Final = {"command": "sleep 600"}


def _command(pid: str) -> bytes:
    with contextlib.suppress(OSError):
        return pathlib.Path("/proc", pid, "cmdline").read_bytes()
    return b""


def _processes(site: Site) -> dict[int, str]:
    """Processes of the daemon and of its sandboxes, by what they name, but for the main one."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        command = _command(entry.name)
        if os.fsencode(f"{site.run}/") in command and int(entry.name) not in (os.getpid(), site.daemon.pid):
            found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace")[:60]
    return found


def _left(site: Site, sandbox: str, before: dict[int, str]) -> list[str]:
    """What of an earlier life is still there: processes, a sandbox's group, mounts and network namespace, links."""
    found = [f"process {pid} ({before[pid]})" for pid in before.keys() & _processes(site).keys()]
    found += [f"group {path}" for path in pathlib.Path("/sys/fs/cgroup").rglob(f"*{sandbox}*") if path.is_dir()]
    found += [f"mount {line.split()[4]}" for line in _mounts() if sandbox in line]
    found += [f"{path}" for path in site.run.rglob(f"*{sandbox}*") if "/code/" not in str(path)]
    return found


def _mounts() -> list[str]:
    return pathlib.Path("/proc/self/mountinfo").read_text().splitlines()


async def _links(site: Site) -> list[str]:
    """Links of the host's own namespace that carry the daemon's name. Raises OSError."""
    instance = (site.state / "instance").read_text()
    links = await host.command("ip", "-o", "link")
    return [line.split(":")[1].strip() for line in links.splitlines() if instance in line]


async def _killed(yard: Yard, *, reaped: bool = True) -> Run:
    """SIGKILL to a daemon under which a call runs; then what still runs, and what its next life leaves of the first."""
    source = None if reaped else await yard.source(REAPER)
    async with Site.open(source, more=_EGRESS) as site:
        async with site.client() as client:
            session = await client.create_session(host.nonce())
            sandbox = (await client.create_sandbox(session)).sandbox.sandbox_id
            call = client.call(session, sandbox, "long", "Bash", _SLEEP, on_disconnect="keep", background=True)
            began = [event async for event in call]
        before = _processes(site)
        await asyncio.to_thread(site.daemon.kill)
        parts = [pid for pid, command in before.items() if "runsc" not in command]
        await site.until(lambda: not [pid for pid in parts if pid in _processes(site)])
        served = [event for event in began if getattr(event, "exec_id", "")]
        await asyncio.to_thread(site.daemon.start)
        found = _left(site, sandbox, before)
        lost = site.records("outcome", call_id="long")
        if not lost:
            found.append("the call that ran has no end on record")
        if source is not None:
            await _reap(site, source)
        await asyncio.to_thread(site.daemon.stop)
        found += [f"link {name}" for name in await _links(site)]
    return Run(
        began=bool(served),
        finished=True,
        found="; ".join(found[:3]),
        layer=f"{len(parts)} parts died with the warden; the next start removed the rest; the call is lost on record",
    )


async def _reap(site: Site, source: pathlib.Path) -> None:
    """Put the check back, and let a daemon that has it clear up."""
    for mutant in REAPER:
        (source / PACKAGE.name / mutant.file).write_text((PACKAGE / mutant.file).read_text())
    await asyncio.to_thread(site.daemon.stop)
    await asyncio.to_thread(site.daemon.start)


TRIALS: Final[tuple[Trial, ...]] = (
    row(
        id="CP-20",
        title="the daemon killed under a call: parts, sandbox, Envoy, links and namespaces that nobody owns",
        severity=Severity.HOST_DOS,
        attacks=("T1489", "T1562.001"),
        breach="a process, group, mount, namespace or link of the earlier life after the next start",
        control="mutant: a start removes nothing",
        attempts=(_killed,),
        weak=partial(_killed, reaped=False),
    ),
)

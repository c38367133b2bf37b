"""How the processes around a guest stand while it works, and that they are a sentry's at all."""

import contextlib
import os
import pathlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final

import msgspec

from opensafe.proof import posture
from opensafe.proof.escape import host
from opensafe.proof.escape.ground import Ground, Row, attempts, bare
from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Attempt, Trial
from opensafe.proof.escape.ways import POLICY, PYTHON
from opensafe.proof.escape.weakening import AS_SHIPPED, Weakening
from opensafe.warden.network.links import Link
from opensafe.warden.network.ports import Port

from .stand import looking
from .wire import Wire

_GUARD: Final = "host guard"
#: What a filter on every thread comes down to; the third is the guard's, beside runsc's own.
_HELD: Final = ("Seccomp 2", "NoNewPrivs 1")
_FILTERS: Final = "filters"

#: Makes threads, children, files, sockets, pipes and timers, all of which the sentry has to have something for.
_WORK: Final = """
import os, select, socket, subprocess, tempfile, threading, time
began = time.monotonic()
def busy():
    while time.monotonic() - began < 1:
        with tempfile.TemporaryFile() as file, socket.socket() as listening:
            file.write(b"x" * 65536)
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            with socket.create_connection(listening.getsockname()):
                subprocess.run(["true"], check=True)
for thread in [threading.Thread(target=busy) for _ in range(4)]:
    thread.start()
open("/etc/passwd").read(), os.memfd_create("x"), select.epoll(), os.eventfd(0)
busy()
print("worked", flush=True)
"""
_COMMAND: Final = "for i in 1 2 3 4; do sleep 0.3 & ls -R /usr/share | wc -l & done; wait; echo worked"

Faults = Callable[[posture.Facts], Iterable[str]]


def _unfiltered(facts: posture.Facts) -> list[str]:
    """Threads without a filter or free to gain privileges, and those that the guard is not on."""
    return [*_without_own(facts), *(f"{f} ({w})" for f, w in facts.items() if f" {_FILTERS} 1" in f)]


def _without_own(facts: posture.Facts) -> list[str]:
    return [
        f"{fact} ({where})"
        for fact, where in facts.items()
        if fact.split()[1] in ("Seccomp", "NoNewPrivs") and not fact.endswith(_HELD)
    ]


class Sampled:
    """Facts of many readings, in which whatever held once holds."""

    def __init__(self) -> None:
        self.facts: dict[str, str] = {}
        self.faults: dict[str, None] = {}
        self.threads = 0
        self.readings = 0

    def read(self, pids: Iterable[int], faults: Faults) -> None:
        """One more."""
        pids = tuple(pids)
        facts = posture.read(pids)
        if not any(fact.startswith("sentry ") for fact in facts) or not any(
            fact.startswith("gofer ") for fact in facts
        ):
            return  # it is not there yet, or gone
        self.readings += 1
        self.threads = max(self.threads, posture.threads(pids))
        self.facts = {**facts, **self.facts}
        self.faults.update(dict.fromkeys(faults(facts)))

    def run(self, *, worked: bool, opened: tuple[str, ...] = (), layer: str) -> Run:
        """As a run. worked: the guest's program got to its end."""
        return Run(
            opened=opened,
            began=self.readings > 0,
            finished=worked,
            found="; ".join(self.faults),
            layer=f"{layer}: {self.readings} readings of up to {self.threads} threads, {len(self.facts)} facts",
        )


def _in_cell(faults: Faults, layer: str, weakening: Weakening = AS_SHIPPED, opened: tuple[str, ...] = ()) -> Attempt:
    async def attempt(on: Ground) -> Run:
        sampled = Sampled()
        async with on.cells.cell(weakening) as cell, looking(lambda: sampled.read(cell.cgroup.pids(), faults)):
            done = await cell.run(cell.launch(*PYTHON, _WORK))
        return sampled.run(worked=done.stdout == b"worked\n", opened=(POLICY, *opened), layer=layer)

    return attempt


def _by_call(faults: Faults, layer: str) -> Attempt:
    async def attempt(on: Ground) -> Run:
        assert on.daemon is not None  # noqa: S101 - only a control has none
        run, sampled = on.daemon.run, Sampled()
        async with (
            on.session() as (client, session, sandbox),
            looking(lambda: sampled.read(posture.around(run, sandbox), faults)),
        ):
            done = await client.run_call(session, sandbox, "work", "Bash", {"command": _COMMAND})
        return sampled.run(worked=done.stdout.endswith(b"worked\n"), layer=layer)

    return attempt


class _Early(Wire):
    """A link that is asked for between the sandbox's creation and its start, with which the sentry takes its filter."""

    look: Callable[[], object]

    async def port(self, namespace: pathlib.Path, link: Link) -> Port:
        """See Wire."""
        self.look()
        return await super().port(namespace, link)


async def _before_the_filter(on: Ground) -> Run:
    """Looked at before the start, and without the guard, which alone is there before the sentry's own."""
    sampled = Sampled()
    run = on.cells.layout.run
    async with _Early.laid(on.cells.layout.namespaces) as wire:
        wire.look = lambda: sampled.read(posture.around(run), _without_own)
        async with on.cells.cell(Weakening(unguarded=True), way_out=wire):
            pass
    return sampled.run(worked=True, opened=(_GUARD,), layer="runsc, created and not started")


async def _weaker(on: Ground) -> Run:
    """Two of them, each of which must show."""
    found = []
    for weakening in (Weakening(host_network=True), Weakening(runsc=("--directfs=false",))):
        async with on.cells.cell(weakening) as cell:
            faults = posture.faults(posture.read(cell.cgroup.pids()))
        if not faults:
            return Run(began=True, finished=True, layer=f"{weakening.options()} makes no difference")
        found.append(f"{' '.join(weakening.options())}: {len(faults)} facts, as {faults[0]}")
    return Run(began=True, finished=True, found="; ".join(found))


class Identity:
    """A name that one of the guest's processes has. Breached where a process of the host has it, where the guest's
    kernel is the host's, or where no sentry is there.
    """

    def __init__(self) -> None:
        self.facts: Mapping[str, object] = {"NAME": host.nonce()}
        self._seen = ""
        self._sentry = False

    def look(self) -> None:
        """At every process of the host."""
        name = str(self.facts["NAME"]).encode()
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                self._sentry |= words[0] == b"runsc-sandbox"
                if words[0] == name:
                    self._seen = f"the guest's process is process {entry.name} of the host"

    async def found(self, output: bytes) -> str:
        """In words."""
        if os.uname().release.encode() in output:
            return self._seen or "the guest's kernel names itself as the host's does"
        return self._seen or ("" if self._sentry else "there is no sentry on the host")


@contextlib.asynccontextmanager
async def _identity() -> AsyncIterator[Identity]:
    identity = Identity()
    async with looking(identity.look):
        yield identity


_WHO = Row(
    scene=_identity,
    program="""
def log():
    text = ctypes.create_string_buffer(4096)
    return text.raw[: call("klogctl", 3, text, 4096)]
def named():
    os.execv("/bin/sleep", [NAME, "0.5"])
show(" ".join(os.uname()))
show(read("/proc/version"))
say("kernel", "the guest's kernel is " + os.uname().release)
attempt("log", log)
attempt("a process of a name", named)
""",
    command="uname -a; cat /proc/version; exec -a {name} sleep 0.5",
)


def _named(attempt: Attempt) -> Attempt:
    """A call's output has no marks of ours: its first line is what the kernel calls itself."""

    async def named(on: Ground) -> Run:
        run = await attempt(on)
        kernel = " ".join(run.hints[0].split()[2:3]) if run.hints else ""
        return msgspec.structs.replace(run, layer=f"the guest's kernel is {kernel}") if kernel else run

    return named


POSED = (
    Trial(
        id="SY-09", boundary=Boundary.SYSCALL, severity=Severity.ESCAPE,
        title="a thread of sentry, gofer or stubs without its filters, while the guest is at work",
        attacks=("T1611",),
        breach="a thread with Seccomp other than 2, NoNewPrivs other than 1, or one filter where there are two",
        control="the same reading of a sandbox without the guard, from before the sentry has installed its filter",
        attempts=(
            _by_call(_unfiltered, "host guard and runsc's filters"),
            _in_cell(_unfiltered, "host guard and runsc's filters"),
            _in_cell(_without_own, "runsc's filters", Weakening(unguarded=True), (_GUARD,)),
        ),
        weak=_before_the_filter,
    ),
    Trial(
        id="SY-10", boundary=Boundary.SYSCALL, severity=Severity.ESCAPE,
        title="sentry, gofer and stubs stand otherwise than expected: identity, capabilities, namespaces, root, mounts,"
        " descriptors, id maps, limits",
        attacks=("T1611",),
        breach="a fact of proc(5) that is not among those of a sandbox as shipped, or one of those missing",
        control="flag: --network=host, and --directfs=false, each of which must show",
        attempts=(
            _by_call(posture.faults, "as expected"),
            _in_cell(posture.faults, "as expected"),
        ),
        weak=_weaker,
    ),
    Trial(
        id="SY-11", boundary=Boundary.SYSCALL, severity=Severity.ESCAPE,
        title="the guest is a fallback runtime's, on the host's own kernel",
        attacks=("T1611",),
        breach="a process of the host with the guest's name, the host's kernel release in the guest, or no sentry",
        control="bare: the same program on the host",
        attempts=(_named(attempts(_WHO)[0]), *attempts(_WHO)[1:]), weak=bare(_WHO),
    ),
)  # fmt: skip

"""A real daemon for tests: one for itself, with what tests look at, and nothing left when it is gone."""

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import socket

from opensafe.client import Client
from opensafe.proof.private import PREFIX, DaemonFailedError, PrivateDaemon
from opensafe.warden.sandbox.limits import Hierarchies

__all__ = ["PREFIX", "ROOT", "Daemon", "running", "signal_process"]

ROOT = pathlib.Path(__file__).resolve().parents[2]
_ROLES = {"agent": ("developer",), "other": ("developer",), "reviewer": ("reviewer", "auditor")}
_MORE_ROLES = {"second": ("reviewer",), "operator": ("operator",)}


class Daemon(PrivateDaemon):
    """`caps`, `service`, `audit`, `egress` and `telemetry` are the text of these sections of the settings; `pool` is
    whole `[[pool]]` tables.

    bundle: another than the shipped, signed for `key`. staffed: with a second reviewer and an operator among the
    principals.
    """

    def __init__(
        self, *, caps="", service="", audit="", telemetry="", pool="", egress="", bundle=None, key=None, staffed=False
    ):
        roles = _ROLES | _MORE_ROLES if staffed else _ROLES
        more = f"[service]\ndrain_s = 5\n{service}\n[caps]\n{caps}\n[audit]\n{audit}\n"
        more += f"[telemetry]\n{telemetry}\n[egress]\n{egress}\n{pool}\n"
        super().__init__("test", roles, bundle=bundle, key=key, more=more)

    def client(self, principal="agent"):
        """A client on that principal's socket."""
        return Client.connect(self.socket_of(principal))

    def ledger(self):
        """The ledger's entries as text lines."""
        return [line.decode() for line in self.ledger_lines()]

    def guest_processes(self, sandbox):
        """Names of the processes in a sandbox, as its sentry tells them: of a runner that has a program without that
        one's number, and nothing of the runner that waits for the next call.
        """
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.connect(os.fspath(self.run / "runsc" / f"runsc-{sandbox}.sock"))
            control.sendall(json.dumps({"method": "containerManager.Processes", "arg": sandbox}).encode())
            control.settimeout(10)
            answer = b""
            while True:  # the answer has no terminator: it ends where it is JSON
                answer += control.recv(65536)
                with contextlib.suppress(ValueError):
                    names = [process["cmd"] for process in json.loads(answer)["result"]]
                    return sorted(name.partition(":")[0] for name in names if name != "run")

    def process_of(self, sandbox, name):
        """Host process of a sandbox by its name, such as `runsc-gofer`."""
        for pid in Hierarchies.find((self.state / "instance").read_text()).group(sandbox).pids():
            if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] == name.encode():
                return pid
        raise LookupError(name)

    def envoy(self):
        """Envoy's process. Raises LookupError."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(") ")[2].split()[1])
                if parent == self.pid and (entry / "exe").readlink().name == "envoy":
                    return int(entry.name)
        raise LookupError("envoy")

    def own_programs(self):
        """Give it a copy of the native programs, in `native` of the run directory, that a test may break."""
        shutil.copytree(self.paths.native, self.run / "native")
        text = self.settings.read_text()
        self.settings.write_text(text.replace(f'"{self.paths.native}"', f'"{self.run / "native"}"'))

    def remove(self):
        """Kill what runs, take the directories away, and say what was left behind in the kernel."""
        self.kill()
        left = self.leftovers()
        super().remove()
        return left

    def leftovers(self):
        """Processes, mounts and cgroups that carry this daemon's name."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if f"{self.run}/" in command and int(entry.name) != os.getpid():
                    found.append(f"process {entry.name}: {command[:100]}")
        mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
        found += [f"mount {line}" for line in mounts if f"{self.run}/" in line]
        instance = self.state / "instance"
        if instance.exists():
            name = instance.read_text()
            found += [f"cgroup {path}" for path in pathlib.Path("/sys/fs/cgroup").rglob(f"*{name}*")]
        return found


@contextlib.contextmanager
def running(prepare=lambda _: None, **settings):
    """A daemon that serves, and of which nothing is left afterwards, also where it did not start.

    prepare: is handed it before it starts.
    """
    daemon = Daemon(**settings)
    try:
        prepare(daemon)
        yield daemon.start()
        assert daemon.stop() == 0
    except BaseException:
        daemon.kill()
        if daemon.leftovers():  # of one that is killed; the next start removes them
            with contextlib.suppress(DaemonFailedError):
                daemon.start().stop()
        daemon.remove()
        raise
    assert daemon.remove() == []


def signal_process(pid, number=signal.SIGKILL):
    """Send a signal and wait until the process is gone."""
    pidfd = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(pidfd, number)
        select.select([pidfd], [], [], 30)
    finally:
        os.close(pidfd)

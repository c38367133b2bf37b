"""A real daemon for tests: own state and run directories, readiness by sd_notify, and nothing left when it is gone."""

import contextlib
import json
import os
import pathlib
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys

from opensafe.client import Client
from opensafe.warden import kernel

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREFIX = pathlib.Path(os.environ.get("OPENSAFE_PREFIX", "/opt/opensafe"))
_READY_S = 60

_SETTINGS = """
[paths]
state = "{state}"
run = "{run}"
runsc = "{prefix}/bin/runsc"
images = "{prefix}/images"
native = "{root}/build/native"
bundle = "{bundle}"

[service]
drain_s = 5

[principals.agent]
roles = ["developer"]

[principals.other]
roles = ["developer"]

[principals.reviewer]
roles = ["reviewer", "auditor"]

[caps]
{caps}
"""


class Daemon:
    """`opensafe up` as a child. `start` returns when it serves; `stop` when it is gone."""

    def __init__(self, *, caps="", bundle=ROOT / "build" / "policy.bundle.tar.gz"):
        name = f"opensafe-test-{secrets.token_hex(3)}"
        self.state = pathlib.Path("/var/lib") / name
        self.run = pathlib.Path("/run") / name
        self.run.mkdir(mode=0o755)
        self.settings = self.run / "opensafe.toml"
        self.settings.write_text(
            _SETTINGS.format(state=self.state, run=self.run, prefix=PREFIX, root=ROOT, bundle=bundle, caps=caps)
        )
        self.log = self.run / "log"
        self.process = None

    def start(self):
        """Start and wait for READY=1."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            address = self.run / "notify"
            address.unlink(missing_ok=True)
            listener.bind(os.fspath(address))
            listener.settimeout(_READY_S)
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "opensafe.cli", "up", "--config", self.settings],
                    env={**os.environ, "NOTIFY_SOCKET": os.fspath(address)},
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            pidfd = os.pidfd_open(self.process.pid)
            try:
                self._await_ready(listener, pidfd)
            finally:
                os.close(pidfd)
        return self

    def _await_ready(self, listener, pidfd):
        while True:
            readable, _, _ = select.select([listener, pidfd], [], [], _READY_S)
            if listener in readable and listener.recv(4096).startswith(b"READY=1"):
                return
            if not readable or pidfd in readable:
                self.kill()
                raise AssertionError(f"the daemon did not get ready:\n{self.log.read_text()}")

    def stop(self):
        """SIGTERM; the exit status."""
        self.process.terminate()
        return self.process.wait(timeout=60)

    def kill(self):
        """SIGKILL to the main process, which is the warden."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=60)

    def child(self, role):
        """Pid of the front or the helper."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if f"opensafe.daemon.{role}".encode() in words and f"{self.run}/code/source".encode() in words:
                    return int(entry.name)
        raise AssertionError(f"no {role}")

    def client(self, principal="agent"):
        """A client on that principal's socket."""
        return Client.connect(self.run / "principals" / principal / "opensafe.sock")

    def ledger(self):
        """The ledger's entries as text lines."""
        return (self.state / "ledger.jsonl").read_text().splitlines()

    def starts(self):
        """How many programs were started so far."""
        return sum('"kind":"start"' in line for line in self.ledger())

    def guest_processes(self, sandbox):
        """Names of the processes in a sandbox, as its sentry tells them."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.connect(os.fspath(self.run / "runsc" / f"runsc-{sandbox}.sock"))
            control.sendall(json.dumps({"method": "containerManager.Processes", "arg": sandbox}).encode())
            control.settimeout(10)
            answer = b""
            while True:  # the answer has no terminator: it ends where it is JSON
                answer += control.recv(65536)
                with contextlib.suppress(ValueError):
                    return sorted(process["cmd"] for process in json.loads(answer)["result"])

    def remove(self):
        """Kill what runs, take the directories away, and say what was left behind in the kernel."""
        self.kill()
        left = self.leftovers()
        for path in self.state.glob("audit/*"):
            descriptor = os.open(path, os.O_RDONLY)
            kernel.set_append_only(descriptor, False)
            os.close(descriptor)
        for path in (self.state, self.run):
            shutil.rmtree(path, ignore_errors=True)
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


def signal_process(pid, number=signal.SIGKILL):
    """Send a signal and wait until the process is gone."""
    pidfd = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(pidfd, number)
        select.select([pidfd], [], [], 30)
    finally:
        os.close(pidfd)

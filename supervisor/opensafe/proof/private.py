"""A daemon for one purpose: its own configuration, state and run directories, and nothing left when it is gone.

What it needs neither uses nor disturbs a daemon that runs. Its state lies on disk and not in /run, so that whatever
is measured includes records that are really durable. Everything here blocks: it stands around an event loop, never
in one.
"""

import contextlib
import os
import pathlib
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import msgspec

import opensafe
from opensafe.config import DEFAULT_PREFIX, Paths
from opensafe.errors import OpenSafeError
from opensafe.warden import kernel

from . import posture

_START_S: Final = 60
_STOP_S: Final = 60
_LOG_LINES: Final = 20

PREFIX: Final = pathlib.Path(os.environ.get("OPENSAFE_PREFIX") or DEFAULT_PREFIX)
_CHECKOUT: Final = pathlib.Path(opensafe.__file__).resolve().parents[2]


class DaemonFailedError(OpenSafeError):
    """The daemon did not start, or did not stop as it must. The end of its log is in the message."""

    reason = "DAEMON_FAILED"


def programs() -> Paths:
    """Where runsc, images, native programs and bundle are: built in this checkout, else installed below PREFIX."""
    shared = Paths(runsc=f"{PREFIX}/bin/runsc", images=f"{PREFIX}/images")
    built = _CHECKOUT / "build"
    native, bundle = PREFIX / "libexec", PREFIX / "share/policy.bundle.tar.gz"
    if (built / "native").is_dir():
        native, bundle = built / "native", built / "policy.bundle.tar.gz"
    return msgspec.structs.replace(shared, native=str(native), bundle=str(bundle))


def trusted_key() -> pathlib.Path:
    """The public key that the bundle of `programs` is signed for."""
    built = _CHECKOUT / "build"
    return built / "keys/policy.pub" if (built / "native").is_dir() else PREFIX / "share/policy.pub"


def policies() -> pathlib.Path:
    """The Rego sources and the red team's data: of this checkout, else as installed below PREFIX."""
    return _CHECKOUT / "policies" if (_CHECKOUT / "build/native").is_dir() else PREFIX / "share/policies"


def demo_files() -> pathlib.Path:
    """The files of the demo's agent: of this checkout, else as installed below PREFIX."""
    return _CHECKOUT / "deploy/demo" if (_CHECKOUT / "build/native").is_dir() else PREFIX / "share/demo"


def _settings(paths: Paths, key: pathlib.Path, roles: Mapping[str, Sequence[str]], more: str) -> str:
    """The daemon's TOML file."""
    lines = ["[paths]", *(f'{name} = "{path}"' for name, path in msgspec.structs.asdict(paths).items())]
    lines += ["[policy]", f'trusted_keys = ["{key}"]']
    for principal, given in roles.items():
        lines += [f"[principals.{principal}]", f"roles = {list(given)}"]
    return "\n".join([*lines, more, ""])


def remove(run: pathlib.Path, state: pathlib.Path) -> None:
    """Take a daemon's directories away. Audit segments are protected by attributes, which are taken back first."""
    for path in state.glob("audit/*"):
        kernel.unprotect(path)
    for directory in (run, state):
        shutil.rmtree(directory, ignore_errors=not directory.exists())


class PrivateDaemon:
    """`opensafe up` as a child. As a context manager: the body runs once it is ready; afterwards it is stopped and
    removed. `start`, `stop`, `kill` and `remove` do the same by hand; a stopped daemon can be started again.
    """

    def __init__(
        self,
        name: str,
        roles: Mapping[str, Sequence[str]],
        *,
        bundle: pathlib.Path | None = None,
        key: pathlib.Path | None = None,
        more: str = "",
        source: pathlib.Path | None = None,
    ) -> None:
        """Make the directories, /run/opensafe-NAME-… and /var/lib/opensafe-NAME-….

        `roles`: each principal's. `bundle`: another than the built one, signed for the public key in `key`. `more`:
        further sections of the settings. `source`: where the package is taken from, if not from here (mutants.py).
        """
        unique = f"opensafe-{name}-{secrets.token_hex(4)}"
        self.run = pathlib.Path("/run", unique)
        self.state = pathlib.Path("/var/lib", unique)
        self.log = self.run / "log"
        self.settings = self.run / "opensafe.toml"
        self.paths = msgspec.structs.replace(programs(), state=str(self.state), run=str(self.run))
        if bundle is not None:
            self.paths = msgspec.structs.replace(self.paths, bundle=str(bundle))
        self.process: subprocess.Popen[bytes] | None = None
        self._last_words: list[str] = []
        self._environment = {**os.environ, **({"PYTHONPATH": str(source)} if source is not None else {})}
        self.run.mkdir(mode=0o755)
        self.settings.write_text(_settings(self.paths, key or trusted_key(), roles, more))

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        status = self.stop()
        failed = self._failed(f"the daemon stopped with {status}") if status else None
        if failed:
            self.start().stop()  # what one leaves that died, the next removes
        self.remove()
        if failed and error is None:
            raise failed

    @property
    def pid(self) -> int:
        """The main process, which is the warden."""
        if self.process is None:
            raise DaemonFailedError("the daemon was not started")
        return self.process.pid

    @property
    def command(self) -> list[str]:
        """What is run."""
        return [sys.executable, "-m", "opensafe.cli", "up", "--config", str(self.settings)]

    def socket_of(self, principal: str) -> pathlib.Path:
        """The socket of one of the principals."""
        return self.run / "principals" / principal / "opensafe.sock"

    def start(self) -> Self:
        """Start, and wait for READY=1. One that ends instead, or takes over a minute, is a DaemonFailedError."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as told:
            told.bind(f"\0{self.run.name}")  # the abstract namespace: no file to remove
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**self._environment, "NOTIFY_SOCKET": f"@{self.run.name}"},
                    start_new_session=True,
                )
            ended = os.pidfd_open(self.process.pid)
            try:
                self._await_ready(told, ended)
            except BaseException:
                self.stop()
                raise
            finally:
                os.close(ended)
        return self

    def stop(self) -> int:
        """SIGTERM; the exit status. One that does not stop within a minute is killed."""
        if self.process is None:
            return 0
        self.process.terminate()
        try:
            return self.process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            return self.process.wait()

    def kill(self) -> None:
        """SIGKILL to the main process, if it runs."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def remove(self) -> None:
        """Take the directories away."""
        self._last_words = self.log_tail()
        remove(self.run, self.state)

    def child(self, role: str) -> int:
        """Process id of the `front` or the `helper`. Raises DaemonFailedError."""
        # Each has a child of its own, forked, that waits to prepare bundles: it goes by the same words.
        for pid in (pid for pid, parent in posture.parents().items() if parent == self.pid):
            with contextlib.suppress(OSError):  # ended meanwhile
                if f"opensafe.daemon.{role}".encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    return pid
        raise self._failed(f"the daemon has no {role}")

    def log_tail(self) -> list[str]:
        """The end of what the daemon said; still there when it was removed."""
        try:
            return self.log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        except OSError:
            return self._last_words

    def audit_lines(self) -> Iterator[bytes]:
        """The whole lines of its audit log as they lie on the disk, whatever is in them."""
        for segment in sorted(self.state.glob("audit/segment-*.jsonl")):
            yield from _whole_lines(segment)

    def ledger_lines(self) -> list[bytes]:
        """Those of the warden's ledger."""
        return _whole_lines(self.state / "ledger.jsonl")

    def starts(self) -> int:
        """How many programs the warden has started so far, by its ledger."""
        return sum(b'"kind":"start"' in line for line in self.ledger_lines())

    def _await_ready(self, told: socket.socket, ended: int) -> None:
        while True:
            readable, _, _ = select.select([told.fileno(), ended], [], [], _START_S)
            if told.fileno() in readable and b"READY=1" in told.recv(4096).split(b"\n"):
                return
            if ended in readable:
                raise self._failed("the daemon ended instead of becoming ready")
            if not readable:
                raise self._failed(f"the daemon was not ready after {_START_S} s")

    def _failed(self, why: str) -> DaemonFailedError:
        return DaemonFailedError("\n  | ".join([why, *self.log_tail()]))


def _whole_lines(path: pathlib.Path) -> list[bytes]:
    """Behind the last newline stands what is just being written; no other character ends a line."""
    return path.read_bytes().split(b"\n")[:-1]

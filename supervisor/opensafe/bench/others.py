"""Other ways to run a program in isolation, beside ours: runsc's own command line, runc, bubblewrap, and two libraries.

Each has what it needs made ready once, and is then asked for one program after the other, as a caller would who has it
at hand. One that can't run has no times, and says why. All calls block: what is timed is theirs, not an event loop's.
"""

import contextlib
import json
import os
import pathlib
import secrets
import select
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from opensafe.errors import OpenSafeError
from opensafe.warden import kernel
from opensafe.warden.sandbox.runsc import PLATFORM

from . import exec_peer_program
from .peers import Peer
from .unwatched import Unwatched

#: Where Debian puts them, whatever PATH this was started with.
_PATH: Final = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
_DEADLINE_S: Final = 60.0
_USER: Final = 1000
_LINE_MAX: Final = 64 * 1024


class Way(Protocol):
    """One of them, ready."""

    version: str

    def run(self, argv: Sequence[str]) -> int | None:
        """Run a program that must end with 0; nanoseconds, or None where the caller's own clock is right.

        Raises OpenSafeError, OSError.
        """


class CommandLine:
    """A program that runs another: `prefix`, then its words."""

    def __init__(self, version: str, *prefix: str | pathlib.Path) -> None:
        self.version = version
        self._prefix = [str(word) for word in prefix]

    def run(self, argv: Sequence[str]) -> None:
        """See Way."""
        _run([*self._prefix, *argv])


def runsc_exec(unwatched: Unwatched) -> CommandLine:
    """`runsc exec` in the sandbox that the raw baseline runs in."""
    root, runsc = unwatched.layout.runsc_root, unwatched.layout.runsc
    options = (f"--root={root}", f"--platform={PLATFORM}", "--network=sandbox", "--ignore-cgroups")
    return CommandLine("", runsc, *options, "exec", f"--user={_USER}:{_USER}", unwatched.sandbox_id)


@contextlib.contextmanager
def bubblewrap(unwatched: Unwatched) -> Iterator[Way]:
    """A sandbox a program: bubblewrap has none that stays."""
    bwrap = _found("bwrap", "bubblewrap")
    version = _run([bwrap, "--version"]).split()[-1]
    confined = ("--unshare-all", "--uid", str(_USER), "--gid", str(_USER), "--die-with-parent", "--new-session")
    mounts = ("--ro-bind", unwatched.rootfs, "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp")  # noqa: S108 - a path in the guest
    yield CommandLine(version, bwrap, *mounts, *confined, "--")


@contextlib.contextmanager
def runc(unwatched: Unwatched) -> Iterator[Way]:
    """`runc exec` in a container on the same image."""
    program = _found("runc", "runc")
    version = _run([program, "--version"]).splitlines()[0].split()[-1]
    with tempfile.TemporaryDirectory(prefix="opensafe-bench-runc-") as directory:
        command = [program, "--root", f"{directory}/state"]
        name = f"opensafe-bench-{secrets.token_hex(4)}"
        pathlib.Path(directory, "config.json").write_text(json.dumps(_oci_spec(unwatched.rootfs)))
        # Nothing that stays may hold our pipes: whoever reads them would wait for it.
        started = subprocess.run(
            [*command, "run", "--detach", "--bundle", directory, name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_DEADLINE_S,
            check=False,
        )
        try:
            if started.returncode:
                raise OpenSafeError("runc can't run a container here", value=f"status {started.returncode}")
            yield CommandLine(version, *command, "exec", name)
        finally:
            subprocess.run([*command, "delete", "--force", name], capture_output=True, check=False)


@contextlib.contextmanager
def library(name: str, environment: pathlib.Path, runsc: pathlib.Path) -> Iterator[Way]:
    """A Python library of that name, in an environment of its own, with the same runsc."""
    python = environment / "bin/python"
    if not python.exists():
        raise OpenSafeError("not installed: run `make peers`")
    with tempfile.TemporaryDirectory(prefix="ospeer-", ignore_cleanup_errors=True) as directory:
        env = {**os.environ, "PATH": f"{runsc.parent}:{_PATH}", "RUNSC_PATH": str(runsc), "TMPDIR": directory}
        process = subprocess.Popen(
            [str(python), "-I", exec_peer_program.__file__, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
        )
        way = _Library(process)
        try:
            way.version = str(way.ask({})["version"])
            yield way
        finally:
            way.close()
            _detach_mounts(directory)


class _Library:
    """Asked by lines of JSON; see exec_peer_program."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.version = ""
        self._process = process

    def run(self, argv: Sequence[str]) -> int:
        """See Way: timed over there, so that our pipe to it is not counted."""
        return int(self.ask({"argv": list(argv)})["ns"])

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Raises OpenSafeError: it did not answer, or says why it can't."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None  # noqa: S101 - both were asked for
        assert stdout is not None  # noqa: S101 - both were asked for
        try:
            stdin.write(msgspec.json.encode(question) + b"\n")
            stdin.flush()
        except BrokenPipeError as error:
            raise OpenSafeError("it has ended") from error
        readable, _, _ = select.select([stdout], [], [], _DEADLINE_S)
        line = stdout.readline(_LINE_MAX) if readable else b""
        try:
            answer = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise OpenSafeError("it gave no answer", value=line[:200]) from error
        if "error" in answer:
            raise OpenSafeError(str(answer["error"])[-500:])
        return answer

    def close(self) -> None:
        """End of its input: it removes what it made, and ends."""
        try:
            self._process.communicate(timeout=_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Others:
    """All of them, until the stack is closed. `found` says of each which version runs, or why none does."""

    def __init__(self, stack: contextlib.ExitStack, unwatched: Unwatched, environment: pathlib.Path) -> None:
        runsc = unwatched.layout.runsc
        ways: dict[str, contextlib.AbstractContextManager[Way]] = {
            "gvisor": library("gvisor", environment, runsc),
            "temenos": library("temenos", environment, runsc),
            "runc": runc(unwatched),
            "bubblewrap": bubblewrap(unwatched),
        }
        self._ready: dict[str, Way] = {}
        self.found: dict[str, Peer] = {}
        for name, made in ways.items():
            try:
                way = self._ready[name] = stack.enter_context(made)
                self.found[name] = Peer(version=way.version)
            except (OpenSafeError, OSError, subprocess.SubprocessError) as error:
                self.found[name] = Peer(error=str(error))

    @property
    def ready(self) -> Mapping[str, Way]:
        """Those that run."""
        return self._ready

    def give_up(self, name: str, error: Exception) -> None:
        """One that failed is not asked again."""
        self.found[name] = Peer(version=self.found[name].version, error=str(error))
        self._ready.pop(name, None)


def _found(program: str, package: str) -> str:
    path = shutil.which(program, path=_PATH)
    if path is None:
        raise OpenSafeError(f"not installed: apt-get install {package}")
    return path


def _run(argv: Sequence[str]) -> str:
    done = subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=_DEADLINE_S, check=False)
    if done.returncode:
        raise OpenSafeError(f"{pathlib.Path(argv[0]).name} ended with {done.returncode}", value=done.stderr[-300:])
    return done.stdout.decode(errors="replace")


def _detach_mounts(directory: str) -> None:
    """runsc leaves a network namespace mounted for its gofers; neither library takes it away."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        target = line.split(" ")[4]
        if target.startswith(f"{directory}/"):
            with contextlib.suppress(OSError):
                kernel.detach_mount(target)


def _oci_spec(rootfs: pathlib.Path) -> dict[str, Any]:
    return {
        "ociVersion": "1.0.2",
        "root": {"path": str(rootfs), "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": _USER, "gid": _USER},
            "args": ["/bin/sleep", "infinity"],
            "env": ["PATH=/usr/bin:/bin"],
            "cwd": "/",
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},  # noqa: S108 - a path in the guest
        ],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]},
    }

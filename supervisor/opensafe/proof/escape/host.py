"""What stands on the host beside a sandbox for its probes to reach: files, a process, listeners.

All of it carries a nonce of the run, and all of it looks by itself whether it was touched: what a guest says of it
decides nothing.
"""

import asyncio
import contextlib
import hashlib
import os
import pathlib
import secrets
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Final

import msgspec

#: Where canaries are planted: a directory that hosts and images have, so that a mount can show it in its own place.
BELOW: Final = pathlib.Path("/srv")

#: Where hosts and images have it.
_PYTHON: Final = "/usr/bin/python3"
_READY_S: Final = 20.0
#: Others may read and write in it: what keeps a guest out must not be its user.
_OPEN: Final = 0o777


def nonce() -> str:
    """Letters and digits that nothing else holds."""
    return "n" + secrets.token_hex(12)


class Canary:
    """A directory of the host's. file: in it, readable for everybody, holds the nonce."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.nonce = nonce()
        self.file = directory / "canary"
        self.file.write_text(self.nonce)
        self._before = manifest(directory)

    @classmethod
    @contextlib.contextmanager
    def planted(cls, below: pathlib.Path = BELOW) -> Iterator["Canary"]:
        """In a directory of its own; gone afterwards."""
        made = pathlib.Path(tempfile.mkdtemp(prefix="opensafe-canary-", dir=below))
        try:
            made.chmod(_OPEN)
            yield cls(made)
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def read_in(self, *outputs: str | bytes) -> str:
        """In words, that the nonce is in one of these; "" where it is in none."""
        held = [output for output in outputs if _bytes(self.nonce) in _bytes(output)]
        return f"the nonce of {self.file.name} came out" if held else ""

    def changed(self) -> str:
        """In words, what is other than it was planted; "" where nothing is."""
        return differs(self._before, manifest(self.directory))


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def manifest(directory: pathlib.Path, *, contents: bool = True) -> Mapping[str, str]:
    """Of every entry, by its path: type, mode, owners, links, size, and a file's SHA-256 or a link's target.

    contents: without them a file's time of change stands for what is in it, of a tree that is too large to be read.
    """
    found: dict[str, str] = {}
    for root, names, files in os.walk(directory):
        for path in (os.path.join(root, name) for name in (*names, *files)):
            with contextlib.suppress(FileNotFoundError):
                found[os.path.relpath(path, directory)] = _entry(path, contents=contents)
    return found


def _entry(path: str, *, contents: bool) -> str:
    status = os.lstat(path)
    content = ""
    if stat.S_ISREG(status.st_mode):
        content = str(status.st_mtime_ns)
        if contents:
            content = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
    elif stat.S_ISLNK(status.st_mode):
        content = os.readlink(path)
    links = "" if stat.S_ISDIR(status.st_mode) else f"{status.st_nlink} {status.st_size}"
    return f"{status.st_mode:o} {status.st_uid}:{status.st_gid} {links} {content}"


def differs(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The first difference of two manifests, in words."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            what = "is new" if name not in before else "is gone" if name not in after else "is another"
            return f"{name} {what} on the host"
    return ""


_MARKER: Final = """
import os, signal, sys
held = bytes.fromhex(sys.stdin.readline().strip())
def told(number, frame):
    os.write(1, b"signal %d " % number)
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
    signal.signal(number, told)
print(hex(id(held)), len(held), flush=True)
sys.stdin.readline()
"""


class Marker:
    """A process of the host's with a name of its own, and a nonce that stands in its memory and nowhere else.

    environment: another nonce, in its environment.
    """

    def __init__(self, process: asyncio.subprocess.Process, name: str, nonces: tuple[str, str], address: int) -> None:
        self.pid = process.pid
        self.name = name
        self.nonce, self.environment = nonces
        #: Where the nonce lies, and 16 bytes or so before it.
        self.address = address
        self._process = process

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, *prefix: str) -> AsyncIterator["Marker"]:
        """Start one. prefix: words before its command line, as of unshare or setpriv, which must become it."""
        name, nonces = f"marker-{secrets.token_hex(6)}", (nonce(), nonce())
        process = await asyncio.create_subprocess_exec(
            *prefix,
            *(_PYTHON, "-I", "-c", _MARKER, name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"MARKER": nonces[1]},
            cwd="/",
        )
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - both are pipes
        try:
            process.stdin.write(nonces[0].encode().hex().encode() + b"\n")
            async with asyncio.timeout(_READY_S):
                words = (await process.stdout.readline()).split()
            yield cls(process, name, nonces, int(words[0], 16))
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def signalled(self) -> str:
        """In words, what it was sent; "" where nothing was. It ends by itself: by then it has told of every signal."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None  # noqa: S101, PT018 - both are pipes
        stdin.close()
        try:
            async with asyncio.timeout(_READY_S):
                said, code = await stdout.read(), await self._process.wait()
        except TimeoutError:
            return "the marker was stopped"
        if said:
            return f"the marker got {said.decode().strip()}"
        return f"the marker ended with {code}" if code else ""

    def held_in(self, *outputs: str | bytes) -> str:
        """In words, that one of its nonces is in one of these; "" where none is."""
        for where, text in (("memory", self.nonce), ("environment", self.environment)):
            if any(_bytes(text) in _bytes(output) for output in outputs):
                return f"the nonce of the marker's {where} came out"
        return ""


class UnixListener:
    """A stream socket for everybody, at a path or (behind a NUL) without one. accepted: how many connected."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.accepted = 0

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator["UnixListener"]:
        """Listen."""
        async with await asyncio.start_unix_server(self._accept, str(self.path)) as server:
            if not str(self.path).startswith("\0"):
                self.path.chmod(_OPEN)
            yield self
            server.close()

    def _accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        writer.close()


class Ended(msgspec.Struct, frozen=True):
    """How a child ended, and what it wrote."""

    status: int
    stdout: bytes
    stderr: bytes

    def require(self, who: str) -> bytes:
        """The standard output of one that has to succeed. Raises OSError."""
        if self.status:
            raise OSError(f"{who} ended with {self.status}: {self.stderr[-300:].decode(errors='replace')}")
        return self.stdout


async def command(*argv: str, ended: bool = False) -> str:
    """What a command of the host's says. ended: however it ends. Raises OSError with what it says where it fails."""
    done = await _ran(argv, cwd="/")
    if done.status and not ended:
        raise OSError(done.status, f"{' '.join(argv)}: {done.stderr.decode().strip()}")
    return (done.stdout + done.stderr).decode() if ended else done.stdout.decode()


async def bare(
    program: str, *words: str, prefix: Sequence[str] = (), env: Mapping[str, str] | None = None, deadline_s: float = 60
) -> bytes:
    """What a Python program writes on the host, where nothing is in its way but what `prefix`, as of unshare, makes.

    Raises TimeoutError.
    """
    given = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} if env is None else env
    async with asyncio.timeout(deadline_s):
        done = await _ran((*prefix, _PYTHON, "-I", "-c", program, *words), env=given, cwd="/", merged=True)
    return done.stdout


async def python(
    *words: str, stdin: bytes = b"", source: pathlib.Path | None = None, env: Mapping[str, str] | None = None
) -> Ended:
    """Run this interpreter. source: of the package, where that is not this one (mutants.py). env: beside ours."""
    given = {**os.environ, **(env or {}), **({"PYTHONPATH": str(source)} if source else {})}
    return await _ran((sys.executable, *words), env=given, stdin=stdin)


async def _ran(
    argv: Sequence[str],
    *,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    merged: bool = False,
) -> Ended:
    """Run one in a session of its own, of which nothing is left afterwards, nor where it is waited for no longer.

    merged: both of its streams are one.
    """
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    )
    try:
        stdout, stderr = await (await asyncio.shield(starting)).communicate(stdin)
    finally:
        process = await starting  # it may run before we know of it
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return Ended(process.returncode or 0, stdout, stderr or b"")

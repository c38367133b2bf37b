"""RS-13: trees that are larger than they look, out of a sandbox onto the host and into one."""

import secrets
import shutil
import tarfile
from collections.abc import AsyncIterator
from typing import Final

from opensafe.client import SOCKET_VARIABLE, SandboxSize
from opensafe.errors import OpenSafeError
from opensafe.model.files import MAX_TREE_ENTRIES
from opensafe.proof.escape import host
from opensafe.proof.escape.probe import Run
from opensafe.proof.planting import plant

from .daemons import Daemon, Kind
from .ground import Ground

_MIB: Final = 1 << 20
#: What the host's caller takes, and what the sandbox itself can hold.
_TAKEN: Final = 32 * _MIB
_HELD: Final = SandboxSize(memory_bytes=192 * _MIB, workspace_bytes=8 * _MIB)
#: Makes 128 MiB of a workspace of 8: files that are holes, and names of one file.
_LARGE: Final = """
import os
os.mkdir("/workspace/large")
os.chdir("/workspace/large")
for number in range(3):
    with open(f"hole-{number}", "wb") as file:
        file.truncate(32 << 20)
with open("name-0", "wb") as file:
    file.write(b"x" * (1 << 20))
for number in range(1, 32):
    os.link("name-0", f"name-{number}")
"""
_BLOCK: Final = 512
_PIECE: Final = 250


async def download(ground: Ground, kind: Kind) -> Run:
    """Out: what the command line of that daemon's package leaves on the host."""
    daemon, target = await ground.daemon(kind), ground.scratch / secrets.token_hex(4)
    async with daemon.sandbox(_HELD) as (client, session, sandbox):
        await plant(client.files(session, sandbox), "/workspace/large.py", _LARGE.encode())
        made = await client.run_call(session, sandbox, "large", "Bash", {"command": "python3 /workspace/large.py"})
        said = await _copied(daemon, f"{sandbox}:/workspace/large", str(target))
    size = sum(file.stat().st_size for file in target.rglob("*"))
    shutil.rmtree(target, ignore_errors=True)
    return Run(
        began=made.outcome.exit_code == 0 and size > 0,
        finished=True,
        found=f"{size >> 20} MiB on the host, where {_TAKEN >> 20} may be taken" if size > _TAKEN else "",
        layer=f"the host's own count, at {size >> 20} MiB",
        hints=(said,),
    )


async def upload(ground: Ground, kind: Kind) -> Run:
    """In: more members than a tree may have, and then one that says to be larger than all that there is."""
    daemon = await ground.daemon(kind)
    async with daemon.sandbox() as (client, session, sandbox):
        files, answers = client.files(session, sandbox), []
        for path, archive in (("many", _many()), ("forged", _forged())):
            try:
                await files.upload(path, archive)
                answers.append(f"{path}: taken")
            except OpenSafeError as error:
                answers.append(f"{path}: {error.message}")
        listed = await client.run_call(session, sandbox, "list", "Bash", {"command": "ls -A many forged"})
    names = listed.stdout.decode().split()
    found = [
        *([f"member {MAX_TREE_ENTRIES + 1} is there"] if "last" in names else []),
        *(["a member that never came is there"] if "never" in names else []),
    ]
    return Run(
        began="first" in names,
        finished=len(answers) > 1,
        found="; ".join(found),
        layer="the unpacking's own count: " + "; ".join(answers),
    )


async def _copied(daemon: Daemon, source: str, target: str) -> str:
    """What `opensafe cp` of the daemon's own package says."""
    words = ("-m", "opensafe.cli", "cp", "-r", f"--size-limit={_TAKEN}", source, target)
    socket = {SOCKET_VARIABLE: str(daemon.socket_of("default"))}
    ended = await host.python(*words, source=daemon.source, env=socket)
    return ended.stderr.decode(errors="replace").strip()[-300:]


async def _many() -> AsyncIterator[bytes]:
    """All but two are the directory itself, which costs nothing but its place."""
    yield _header("first")
    piece = _header(".", kind=tarfile.DIRTYPE) * _PIECE
    for _ in range(MAX_TREE_ENTRIES // _PIECE):
        yield piece
    yield _header("last") + bytes(2 * _BLOCK)


async def _forged() -> AsyncIterator[bytes]:
    yield _header("never", size=1 << 30) + bytes(_BLOCK)


def _header(name: str, *, size: int = 0, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)

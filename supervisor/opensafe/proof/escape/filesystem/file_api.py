"""Ways out of a granted root through the file API, which opens paths that a guest made: links, races, spellings.

The API works in the guest, so what lies outside the root is the guest's own: /dev/shm as shipped, and with the policy
opened a directory of the workspace, of which only another one is granted. A file of the host's is tried beside it.
"""

import asyncio
import contextlib
import pathlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec

from opensafe.client import Client, Files
from opensafe.errors import Denied, FileError, InvalidArgument, OpenSafeError
from opensafe.proof import mutants, private
from opensafe.proof.escape import host
from opensafe.proof.escape.bundles import patient
from opensafe.proof.escape.ground import Ground, daemon, sandboxed
from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Attempt, Trial
from opensafe.proof.escape.ways import POLICY
from opensafe.proof.mutants import Mutant
from opensafe.proof.planting import plant

from .file_ways import Operation, Place, links, siblings, spellings

_TOOLS: Final = "normalize/file_tools.py"
#: The path that was checked by its text is opened from the top, links and all.
_FROM_THE_TOP: Final = Mutant(
    id="file-api-from-the-top",
    file=_TOOLS,
    old="    return root, relative(root, path)\n",
    new='    return "/", path.lstrip("/")\n',
)
_RAW: Final = Mutant(
    id="file-api-raw-text",
    file=_TOOLS,
    old="    path = resolve(path, DEFAULT_CWD)\n    holding",
    new="    holding",
)
_PREFIX: Final = Mutant(
    id="file-api-prefix",
    file="normalize/paths.py",
    old='    return root == "/" or path == root or path.startswith(root + "/")\n',
    new="    return path.startswith(root)\n",
)
MUTANTS: Final = (_FROM_THE_TOP, _RAW, _PREFIX)

#: How often a file is written while the directory on its way is another one each time.
_WRITES: Final = 60
#: What says that the policy allowed it and no root was granted for it.
_NO_ROOT: Final = "no granted root holds"
_GRANTS: Final = ("read", "write", "list", "files")
#: How the API says no; whatever else it raises keeps an operation from being tried.
_REFUSALS: Final = (Denied, FileError, InvalidArgument)


_SHIPPED: Final = Place("/workspace", "/dev/shm")  # noqa: S108 - in the guest
_NARROW: Final = Place("/workspace/ws", "/workspace/out")

_SET_UP: Final = """
import os
NONCE = HELD[::-1]
os.makedirs(OUTSIDE, exist_ok=True)
for path in (OUTSIDE + "/canary", OUTSIDE + "/" + NONCE):
    with open(path, "w") as file:
        file.write(NONCE)
above = os.path.relpath(OUTSIDE, ROOT)
links = {"absolute": OUTSIDE + "/canary", "relative": above + "/canary", "place": OUTSIDE, "above": above, "top": "/"}
links |= {"host": CANARY, "proc": "/proc/1/root" + CANARY, "self": "/proc/self/root" + OUTSIDE, "hop": "above"}
for name, target in links.items():
    os.symlink(target, ROOT + "/" + name)
os.symlink(above, ROOT + "/link")
if ROOT != "/workspace":
    os.makedirs(ROOT + "-evil")
    with open(ROOT + "-evil/canary", "w") as file:
        file.write(NONCE)
print("set up")
"""
#: The API makes directories that are missing, also one that is just being exchanged.
_FLIP: Final = """
import os, shutil
os.chdir(ROOT)
print("flipping", flush=True)
open("begun", "w").close()
def put(source):
    while True:
        try:
            os.rename(source, "flip")
            return
        except OSError:
            shutil.rmtree("flip", ignore_errors=True)
turns = 0
while not os.path.exists("stop"):
    shutil.rmtree("flip", ignore_errors=True)
    put("link")
    os.rename("flip", "link")
    os.mkdir("kept")
    put("kept")
    turns += 1
print("turns:", turns, "outside:", *sorted(os.listdir(OUTSIDE)))
"""


class _Stage(msgspec.Struct, frozen=True):
    """A sandbox that is set up, and its files. nonce: in the guest, outside the root; and another one on the host."""

    client: Client
    session: str
    sandbox: str
    place: Place
    nonce: str
    canary: host.Canary

    @property
    def files(self) -> Files:
        return self.client.files(self.session, self.sandbox)

    async def python(self, name: str, text: str) -> bytes:
        """What a program prints; it is unpacked into a file, where no policy looks into it."""
        # The file lies within the root, and so must not hold the nonce as it is.
        facts = {"ROOT": self.place.root, "OUTSIDE": self.place.outside, "HELD": self.nonce[::-1]}
        facts |= {"CANARY": str(self.canary.file)}
        lines = [f"{fact} = {value!r}" for fact, value in facts.items()]
        path = f"{self.place.root}/{name}.py"
        await plant(self.files, path, "\n".join([*lines, text]).encode())
        done = await self.client.run_call(self.session, self.sandbox, name, "Bash", {"command": f"python3 {path}"})
        return done.stdout + done.stderr

    def found(self, replies: Sequence[bytes]) -> str:
        """The breach in what the API answered."""
        if any(self.nonce.encode() in reply for reply in replies):
            return "the API's reply holds what lies outside the root"
        return self.canary.read_in(*replies)


@contextlib.asynccontextmanager
async def _staged(of: private.PrivateDaemon, place: Place) -> AsyncIterator[_Stage]:
    async with sandboxed(of) as (client, session, sandbox):
        with host.Canary.planted() as canary:
            stage = _Stage(client, session, sandbox, place, host.nonce(), canary)
            made = await client.run_call(session, sandbox, "root", "Bash", {"command": f"mkdir -p {place.root}"})
            said = await stage.python("setup", _SET_UP)
            if b"set up" not in said:
                raise OpenSafeError(f"the guest's files can't be set up: {made.stderr + said!r}")
            yield stage


def _operations(of: Callable[[Place], dict[str, Operation]]) -> Callable[[_Stage], Awaitable[Run]]:
    async def run(stage: _Stage) -> Run:
        replies: list[bytes] = []
        hints: list[str] = []
        layers: dict[str, None] = {}
        for name, operation in of(stage.place).items():
            try:
                replies.append(await operation(stage.files))
                hints.append(f"{name}: done")
            except _REFUSALS as error:
                hints.append(f"{name}: {error.reason}")
                layers[_layer(error)] = None
        return Run(began=True, finished=True, found=stage.found(replies), layer=", ".join(layers), hints=tuple(hints))

    return run


def _layer(error: Denied | FileError | InvalidArgument) -> str:
    if isinstance(error, Denied):
        if _NO_ROOT in str(error):
            return f"normalizer: {_NO_ROOT} the path"
        return f"policy: block by {', '.join(rule.id for rule in error.rules)}"
    return f"{'file helper' if isinstance(error, FileError) else 'normalizer'}: {error.reason}"


async def _race(stage: _Stage) -> Run:
    """Write beneath a name that is a directory and a link out of the root in turn."""
    flipping = asyncio.create_task(stage.python("flip", _FLIP))
    written, layers = 0, dict[str, None]()
    begun = False
    try:
        while not begun and not flipping.done():
            begun = any(entry.name == b"begun" for entry in (await stage.files.list(stage.place.root)).entries)
        for number in range(_WRITES):
            try:
                await stage.files.write(f"{stage.place.root}/flip/{stage.nonce}.{number}", b"planted")
                written += 1
            except _REFUSALS as error:
                layers[_layer(error)] = None
        await stage.files.write(f"{stage.place.root}/stop", b"")
        said = (await flipping).decode(errors="replace")
    finally:
        flipping.cancel()
        await asyncio.wait([flipping])
    outside = [name for name in said.split() if name.startswith(f"{stage.nonce}.")]
    return Run(
        began="flipping" in said,
        finished="turns:" in said and bool(written),
        found=f"{len(outside)} of {written} files were made outside the root" if outside else "",
        layer=", ".join(layers),
        hints=(f"{written} of {_WRITES} writes went through", said[-200:]),
    )


def _narrow(settings: dict[str, Any]) -> None:
    """One directory of the workspace is granted, and policy allows all of it."""
    for name in _GRANTS:
        paths = settings["grants"][name]["paths"]
        paths |= {kind: [_NARROW.root] for kind in ("read", "write") if paths[kind]}


@contextlib.asynccontextmanager
async def _opened(*planted: Mutant) -> AsyncIterator[private.PrivateDaemon]:
    with contextlib.ExitStack() as stack:
        path = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="opensafe-escape-")))
        source = stack.enter_context(mutants.planted(*planted)) if planted else None
        async with daemon("files", await asyncio.to_thread(patient, path, _narrow), source=source) as made:
            yield made


def _api(run: Callable[[_Stage], Awaitable[Run]]) -> tuple[tuple[Attempt, ...], Attempt]:
    """The attempts and the control of one row."""

    async def shipped(on: Ground) -> Run:
        assert on.daemon is not None  # noqa: S101 - only a control has none
        async with _staged(on.daemon, _SHIPPED) as stage:
            return await run(stage)

    async def peeled(on: Ground) -> Run:
        async with _staged(await on.kept("opened", _opened), _NARROW) as stage:
            return msgspec.structs.replace(await run(stage), opened=(POLICY,))

    async def weak(on: Ground) -> Run:
        async with _staged(await on.kept("mutants", lambda: _opened(*MUTANTS)), _NARROW) as stage:
            return await run(stage)

    return (shipped, peeled), weak


_LINKS, _RACE = _api(_operations(links)), _api(_race)
_SPELLINGS, _SIBLINGS = _api(_operations(spellings)), _api(_operations(siblings))

FILE_API = (
    Trial(
        id="FS-05", boundary=Boundary.FILESYSTEM, severity=Severity.INTERNAL_READ,
        title="links in the workspace that lead out of it, read, listed, moved and downloaded through the file API",
        attacks=("T1083", "T1005"),
        breach="an answer of the API's holds what lies outside the root",
        control=f"mut {_FROM_THE_TOP.id}: the path that was checked is opened from the top",
        attempts=_LINKS[0], weak=_LINKS[1],
    ),
    Trial(
        id="FS-06", boundary=Boundary.FILESYSTEM, severity=Severity.INTERNAL_READ,
        title="a directory that is exchanged for a link and back while the file API writes beneath it",
        attacks=("T1565.001",),
        breach="a file outside the root", control=f"mut {_FROM_THE_TOP.id}: check, then open",
        attempts=_RACE[0], weak=_RACE[1],
    ),
    Trial(
        id="FS-08", boundary=Boundary.FILESYSTEM, severity=Severity.INTERNAL_READ,
        title="spellings of a path: .., %2e, backslash, NUL, overlong and wide dots, doubled slashes, URL",
        attacks=("T1083",),
        breach="an answer of the API's holds what lies outside the root",
        control=f"mut {_RAW.id}, {_FROM_THE_TOP.id}: the prefix is looked for in the text as it came, and it is opened"
        " from the top",
        attempts=_SPELLINGS[0], weak=_SPELLINGS[1],
    ),
    Trial(
        id="FS-09", boundary=Boundary.FILESYSTEM, severity=Severity.INTERNAL_READ,
        title="a sibling whose name begins as the root's does",
        attacks=("T1083",),
        breach="an answer of the API's holds what lies outside the root",
        control=f"mut {_PREFIX.id}, {_FROM_THE_TOP.id}: startswith without a separator, and it is opened from the top",
        attempts=_SIBLINGS[0], weak=_SIBLINGS[1],
    ),
)  # fmt: skip

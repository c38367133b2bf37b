"""Ways to the host's processes: seeing them, signalling them, reading them, entering their namespaces."""

from typing import Final

from opensafe.proof.escape.ground import Row, attempts, bare
from opensafe.proof.escape.host import BELOW
from opensafe.proof.escape.probe import Boundary, Severity
from opensafe.proof.escape.trial import Trial

from . import scenes

_LIST = Row(
    scene=scenes.marker,
    command="ps aux; ls /proc; cat /proc/[0-9]*/comm; cat /proc/{pid}/cmdline",
    program="""
def named(pid):
    return read("/proc/%s/comm" % pid) + read("/proc/%s/cmdline" % pid)
for pid in [PID] + pids() + list(range(PID - 2, PID + 3)):
    attempt("process %d" % pid, named, pid)
attempt("ps", lambda: subprocess.run(["ps", "ax", "-o", "pid,args"], capture_output=True).stdout)
attempt("sched_debug", read, "/proc/sched_debug", 1 << 20)
attempt("timer_list", read, "/proc/timer_list", 1 << 20)
""",
)
_SIGNAL = Row(
    scene=scenes.signalled,
    command="kill -USR1 {pid}; kill -CONT -1; kill -CONT -{pid}",
    program="""
KILL, TGKILL, TKILL, SIGQUEUE, PIDFD_OPEN, PIDFD_SEND = 62, 234, 200, 129, 434, 424
def by_descriptor(pid):
    call("syscall", PIDFD_SEND, call("syscall", PIDFD_OPEN, pid, 0), signal.SIGUSR1, None, 0)
def queued(pid):
    call("syscall", SIGQUEUE, pid, signal.SIGUSR2, struct.pack("<iii", signal.SIGUSR2, 0, -1) + bytes(116))
attempt("kill", os.kill, PID, signal.SIGUSR1)
attempt("group", os.kill, -PID, signal.SIGCONT)
attempt("tgkill", call, "syscall", TGKILL, PID, PID, signal.SIGUSR1)
attempt("tkill", call, "syscall", TKILL, PID, signal.SIGUSR1)
attempt("sigqueue", queued, PID)
attempt("pidfd", by_descriptor, PID)
for pid in pids():
    attempt("kill %d" % pid, os.kill, pid, signal.SIGCONT)
attempt("everybody", os.kill, -1, signal.SIGCONT)
attempt("owner", __import__("fcntl").fcntl, 0, 8, PID)
""",
)
_TRACE = Row(
    scene=scenes.marker,
    command="dd if=/proc/{pid}/mem bs=1 skip={address} count=100",
    program="""
PEEK, ATTACH, SEIZE = 2, 16, 0x4206
PIDFD_OPEN, PIDFD_GETFD, VM_READ = 434, 438, 310
def peeked(pid, request):
    libc.ptrace.restype = ctypes.c_long
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    call("ptrace", request, pid, None, None)
    if request == ATTACH:
        os.waitpid(pid, 0x40000000)
    words = [call("ptrace", PEEK, pid, ADDRESS + at, None) for at in range(0, 96, 8)]
    return b"".join(struct.pack("<q", word) for word in words)
def copied(pid):
    got = ctypes.create_string_buffer(100)
    ours = struct.pack("<QQ", ctypes.addressof(got), 100)
    call("syscall", VM_READ, pid, ours, 1, struct.pack("<QQ", ADDRESS, 100), 1, 0)
    return got.raw
def taken(pid):
    descriptor = call("syscall", PIDFD_OPEN, pid, 0)
    return [os.readlink("/proc/self/fd/%d" % call("syscall", PIDFD_GETFD, descriptor, at, 0)) for at in range(3)]
for pid in [PID] + [pid for pid in pids() if pid != os.getpid()]:
    attempt("attach %d" % pid, peeked, pid, ATTACH)
    attempt("process_vm_readv %d" % pid, copied, pid)
    attempt("pidfd_getfd %d" % pid, taken, pid)
""",
)
_READ = Row(
    scene=scenes.marker,
    command="cat /proc/{pid}/environ /proc/1/environ; ls -l /proc/{pid}/cwd /proc/{pid}/exe; cat /proc/{pid}/maps",
    program="""
def memory(pid, at):
    return os.pread(os.open("/proc/%d/mem" % pid, os.O_RDONLY), 100, at)
for pid in [PID] + pids():
    for name in ("environ", "maps", "auxv", "stack", "cmdline", "io", "mountinfo"):
        attempt("%s of %d" % (name, pid), read, "/proc/%d/%s" % (pid, name), 1 << 16)
    for name in ("cwd", "exe", "root"):
        attempt("%s of %d" % (name, pid), os.readlink, "/proc/%d/%s" % (pid, name))
    attempt("memory of %d" % pid, memory, pid, ADDRESS)
""",
)
_ENTER = Row(
    scene=scenes.namespaces,
    command="nsenter -t 1 -m -n touch {directory}/{name}; nsenter -t {pid} -a touch {directory}/{name}",
    program="""
KINDS = {"mnt": 0x20000, "net": 0x40000000, "uts": 0x4000000, "ipc": 0x8000000, "pid": 0x20000000, "user": 0x10000000}
def reached():
    got = []
    for look in (lambda: write(DIRECTORY + "/" + NAME, "inside"), lambda: knock()):
        try:
            got.append(look())
        except OSError as error:
            got.append(errno.errorcode.get(error.errno))
    return got
def knock():
    with socket.create_connection(("127.0.0.1", PORT), 2) as peer:
        return peer.send(b"inside")
def entered(*paths):
    for descriptor in [os.open(path, os.O_RDONLY) for path in paths]:
        call("setns", descriptor, 0)
    return reached()
def by_descriptor(pid, kinds):
    call("setns", call("syscall", 434, pid, 0), kinds)
    return reached()
attempt("as it is", reached)
for pid in [1, PID] + pids():
    for kind in KINDS:
        attempt("%s of %d" % (kind, pid), entered, "/proc/%d/ns/%s" % (pid, kind))
    attempt("mounts and network of %d" % pid, entered, "/proc/%d/ns/net" % pid, "/proc/%d/ns/mnt" % pid)
    attempt("all of %d" % pid, by_descriptor, pid, 0x20000 | 0x40000000)
""",
)
#: A mount namespace in which the canary is not to be seen, and a network namespace in which nobody listens.
_APART: Final = ("unshare", "--mount", "--net", "sh", "-c", f'mount -t tmpfs none {BELOW} && exec "$@"', "sh")

PROCESSES = (
    Trial(
        id="PR-01", boundary=Boundary.PROCESS, severity=Severity.HOST_LEAK,
        title="list processes and look for one of the host's",
        attacks=("T1057",), benchmark=("pid_namespace",),
        breach="the marker's name in the output", control="bare: the host's process namespace",
        attempts=attempts(_LIST), weak=bare(_LIST),
    ),
    Trial(
        id="PR-02", boundary=Boundary.PROCESS, severity=Severity.HOST_DOS,
        title="signal a process of the host's by number, group and descriptor, and everybody",
        attacks=("T1489",), benchmark=("pid_namespace",),
        breach="the marker gets a signal", control="bare: as the marker's user, whom nobody else is",
        attempts=attempts(_SIGNAL), weak=bare(_SIGNAL, *scenes.AS_MARKER),
    ),
    Trial(
        id="PR-03", boundary=Boundary.PROCESS, severity=Severity.HOST_LEAK,
        title="trace a process of the host's, and read its memory by process_vm_readv",
        attacks=("T1055.008",), benchmark=("pid_namespace",),
        breach="the nonce in the marker's memory in the output",
        control="bare: CAP_SYS_PTRACE and the host's process namespace",
        attempts=attempts(_TRACE), weak=bare(_TRACE),
    ),
    Trial(
        id="PR-04", boundary=Boundary.PROCESS, severity=Severity.HOST_LEAK,
        title="read environment, maps, memory, directory and program of other processes",
        attacks=("T1057", "T1003.007"),
        breach="a nonce in the marker's environment or memory in the output", control="bare",
        attempts=attempts(_READ), weak=bare(_READ),
    ),
    Trial(
        id="PR-06", boundary=Boundary.PROCESS, severity=Severity.ESCAPE,
        title="enter the namespaces of process 1 and of a process of the host's",
        attacks=("T1611",), benchmark=("pid_namespace", "privileged"),
        breach="a file beside the canary, or a connection to the host's loopback",
        control="bare: the same from namespaces of its own, with CAP_SYS_ADMIN (nsenter)",
        attempts=attempts(_ENTER), weak=bare(_ENTER, *_APART),
    ),
)  # fmt: skip

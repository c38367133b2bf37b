"""Ways into the host's kernel beside the table of calls: rings, raw sockets, what only an administrator's calls do."""

from typing import Final

from opensafe.proof.escape import ways
from opensafe.proof.escape.filesystem import scenes
from opensafe.proof.escape.ground import Row, attempts, bare, in_cell, weakened
from opensafe.proof.escape.probe import Boundary, Severity
from opensafe.proof.escape.trial import Attempt, Trial
from opensafe.proof.escape.ways import FILTER, MOUNTED, POLICY, USER, Way
from opensafe.proof.escape.weakening import IN_SIGHT, Weakening

from . import wire
from .stand import KernelScene

#: One READV of a file through a ring (io_uring_setup(2), linux/io_uring.h). What is shown came through the ring alone.
_RING: Final = """
SETUP, ENTER, SQES, CQES, READV = 425, 426, 0x10000000, 0x8000000, 1
def mapped(ring, offset):
    # gVisor has its rings at fixed sizes; a page or four is enough for eight entries anywhere.
    return call("mmap", None, 16384, 3, 0x8001, ring, ctypes.c_long(offset))
def word(base, offset):
    return ctypes.c_uint32.from_address(base + offset)
def through():
    parameters = ctypes.create_string_buffer(120)
    ring = call("syscall", SETUP, 8, parameters)
    show("a ring")
    sq_off = struct.unpack_from("10I", parameters, 40)
    cq_off = struct.unpack_from("10I", parameters, 80)
    submit = mapped(ring, 0)
    entries = mapped(ring, SQES)
    buffer = ctypes.create_string_buffer(256)
    vector = ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(buffer), 256), 16)
    file = os.open(CANARY, os.O_RDONLY)
    entry = struct.pack("BBHiQQIIQ", READV, 0, 0, file, 0, ctypes.addressof(vector), 1, 0, 7).ljust(64, b"\\0")
    ctypes.memmove(entries, entry, 64)
    tail = word(submit, sq_off[1]).value
    word(submit, sq_off[6] + 4 * (tail & word(submit, sq_off[2]).value)).value = 0
    word(submit, sq_off[1]).value = tail + 1
    call("syscall", ENTER, ring, 1, 1, 1, None, 0)
    return buffer.raw.rstrip(b"\\0")
attempt("io_uring", through)
"""
_IOURING = Row(
    scene=scenes.canary,
    program=_RING,
    command="python3 -c 'import ctypes; print(ctypes.CDLL(None).syscall(425, 8, bytes(120)))'; cat {canary}",
)

_RAW: Final = """
MARK = FORGED.encode()
def framed():
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
        raw.bind(("eth0", 0))
        return raw.send(b"\\xff" * 6 + b"\\x02forge" + b"\\x88\\xb5" + MARK)
def cooked():
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0) as raw:
        return raw.sendto(MARK, ("eth0", 0x88b5, 0, 0, b"\\xff" * 6))
def spoofed(protocol):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol) as raw:
        raw.setsockopt(socket.IPPROTO_IP, socket.IP_HDRINCL, 1)
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(MARK), 1, 0, 64, 17, 0,
            socket.inet_aton("203.0.113.9"), socket.inet_aton(GATEWAY))
        return raw.sendto(head + MARK, (GATEWAY, 0))
def pinged():
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        return raw.sendto(b"\\x08\\0\\0\\0\\0\\1\\0\\1" + MARK, (GATEWAY, 0))
attempt("frame", framed)
attempt("packet", cooked)
attempt("ip with a header of its own", spoofed, 255)
attempt("udp with a header of its own", spoofed, 17)
attempt("echo", pinged)
"""
_SOCKETS = Row(
    scene=wire.scene,
    program=_RAW,
    command="python3 -c 'import socket; socket.socket(socket.AF_PACKET, 3, 0)'; ping -c1 {gateway}; nping {forged}",
)

_MAP: Final = """
import time
BPF = 321
def made():
    attributes = struct.pack("7I", 2, 4, 8, 1, 0, 0, 0) + NAME.encode().ljust(16, b"\\0")
    call("syscall", BPF, 0, ctypes.create_string_buffer(attributes, 72), 72)
    time.sleep(0.3)  # long enough to be seen by whoever looks at the host's
attempt("bpf map", made)
"""
_ADMINISTRATION: Final = """
def loaded():
    code = struct.pack("BBHi", 0xb7, 0, 0, 0) + struct.pack("BBHi", 0x95, 0, 0, 0)
    held, licence = ctypes.create_string_buffer(code, 16), ctypes.create_string_buffer(b"GPL")
    attributes = struct.pack("IIQQ", 1, 2, ctypes.addressof(held), ctypes.addressof(licence)).ljust(120, b"\\0")
    return call("syscall", BPF, 5, ctypes.create_string_buffer(attributes, 120), 120)
def observed():
    attributes = struct.pack("IIQ", 1, 112, 0).ljust(112, b"\\0")
    return call("syscall", 298, ctypes.create_string_buffer(attributes, 112), -1, 0, -1, 0)
def swapped():
    for path in ("/workspace/swap", "/tmp/swap"):
        write(path, (b"\\0" * 1024 + struct.pack("III", 1, 15, 0)).ljust(4086, b"\\0") + b"SWAPSPACE2" + b"\\0" * 61440)
        call("syscall", 167, path, 0)
def later(number, *words):
    return call("syscall", number, *words, struct.pack("qq", int(time.time()) + 86400, 0))
def inserted():
    return call("syscall", 175, b"\\x7fELF" + b"\\0" * 60, 64, b"")
attempt("bpf program", loaded)
attempt("perf_event_open", observed)
attempt("userfaultfd", call, "syscall", 323, 0)
attempt("userfaultfd for all", call, "syscall", 323, 1)
attempt("kexec_load", call, "syscall", 246, 0, 0, None, 0)
attempt("kexec_file_load", call, "syscall", 320, 0, 0, 1, b"x", 0)
attempt("init_module", inserted)
attempt("finit_module", call, "syscall", 313, 0, b"", 0)
attempt("delete_module", call, "syscall", 176, b"loop", 0)
attempt("swapon", swapped)
attempt("settimeofday", lambda: later(164))
attempt("clock_settime", lambda: later(227, 0))
attempt("adjtimex", call, "syscall", 159, struct.pack("Iq", 0x4000, 9000).ljust(208, b"\\0"))
attempt("sethostname", call, "syscall", 170, NAME.encode(), len(NAME))
attempt("setdomainname", call, "syscall", 171, NAME.encode(), len(NAME))
attempt("acct", call, "syscall", 163, b"/tmp/swap")
attempt("iopl", call, "syscall", 172, 3)
attempt("ioperm", call, "syscall", 173, 0x70, 2, 1)
attempt("syslog clear", call, "syscall", 103, 5, None, 0)
for command in (0x89abcdef, 0, 0x01234567, 0x4321fedc, 0xcdef0123, 0xd000fce2, 0x45584543):
    attempt("reboot %x" % command, call, "syscall", 169, 0xfee1dead, 672274793, ctypes.c_long(command), None)
"""
_ADMINISTER = Row(
    scene=KernelScene.open,
    program=_MAP + _ADMINISTRATION,
    command="date -s '+1 day'; hostname {name}; insmod /tmp/{name}.ko; swapon /tmp/{name}; dmesg --clear; reboot -f",
)
_MAP_ALONE = Row(scene=KernelScene.open, program=_MAP, command="")


def _visible(way: Way, *opened: str) -> Attempt:
    """With the canary where the guest sees it: what is left is the ring."""
    return lambda on: in_cell(on, _IOURING, way, lambda _: IN_SIGHT, opened=(*opened, MOUNTED))


KERNEL = (
    Trial(
        id="SY-05", boundary=Boundary.SYSCALL, severity=Severity.ESCAPE,
        title="read a file of the host's through a ring of io_uring",
        attacks=("T1106", "T1005"),
        breach="the canary's nonce, which only the ring reads, in the output",
        control="flag: --iouring, without the call filter, the canary's directory mounted",
        attempts=(
            *attempts(_IOURING),
            _visible(ways.filtered, POLICY),
            _visible(ways.unfiltered, POLICY, FILTER),
        ),
        weak=weakened(_IOURING, lambda _: Weakening(binds=IN_SIGHT.binds, runsc=("--iouring",))),
    ),
    Trial(
        id="SY-06", boundary=Boundary.SYSCALL, severity=Severity.LATERAL,
        title="forge frames and packets with raw and packet sockets",
        attacks=("T1040", "T1557", "T1095"), benchmark=("packet_socket",),
        breach="a frame with the run's nonce at the host's end of the guest's link",
        control="flag: --net-raw, and CAP_NET_RAW for the guest's root",
        attempts=(
            attempts(_SOCKETS)[0],
            wire.attempt(_SOCKETS, ways.filtered, opened=(POLICY,)),
            wire.attempt(_SOCKETS, ways.unfiltered, opened=(POLICY, FILTER)),
            wire.attempt(_SOCKETS, ways.as_root, opened=(POLICY, FILTER, USER)),
        ),
        weak=wire.attempt(_SOCKETS, ways.as_root, weakening=Weakening(runsc=("--net-raw",))),
    ),
    Trial(
        id="SY-08", boundary=Boundary.SYSCALL, severity=Severity.HOST_DOS,
        title="load code into the kernel, set its clock, swap, names, accounting; watch all CPUs; reboot",
        attacks=("T1547.006", "T1529", "T1601"), benchmark=("sys_module", "bpf_privesc"),
        breach="the host's modules, swap, names, BPF maps or clock are others than before",
        control="bare, configuration form: the program's part whose effect ends with it, a BPF map, on the host with"
        " CAP_BPF",
        attempts=attempts(_ADMINISTER),
        weak=bare(_MAP_ALONE),
    ),
)  # fmt: skip

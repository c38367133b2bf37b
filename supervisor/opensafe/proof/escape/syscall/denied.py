"""Calls that a profile has, with arguments that it has not: new namespaces, other families, typing for others.

Values are those of the kernel's headers for x86-64. A word with more than 32 bits is one that the kernel cuts.
"""

from typing import Final

from opensafe.warden.sandbox.syscalls import NUMBERS

from .plan import Attempt, Way

_CALLS: Final = {
    # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, all, and with a signal, CLONE_FS, CLONE_VM.
    "clone": """0x20000 0x2000000 0x4000000 0x8000000 0x10000000 0x20000000 0x40000000 0x7e020000 0x10000011 0x10000211
        0x20000100 0x110000000""",
    "personality": "0x40000 0x400000 0x100000 0x8000000 0x8 0x4000000 0x5 0x140000",
    # SET_KEEPCAPS, SET_TIMING, SET_SECCOMP, CAPBSET_DROP, SET_TSC, SET_SECUREBITS, MCE_KILL, SET_MM,
    # SET_CHILD_SUBREAPER, SET_SPECULATION_CTRL, SET_IO_FLUSHER, SET_SYSCALL_USER_DISPATCH, SCHED_CORE, SET_MDWE,
    # SET_PTRACER, and one cut to SET_CHILD_SUBREAPER.
    "prctl": """8,1 14 22,2 24,21 26,2 28,1 33 35,1 36,1 53,0,2 57,1 59,1 62,1 65,1 0x59616d61,1 0x100000024,1 5 6 9 11
        13 19 20 27 31 32 34 48 60 67""",
    # TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS, TIOCVHANGUP, TIOCEXCL, TIOCSSERIAL, KDSETMODE, VT_ACTIVATE; of sockets
    # ADDRT, SIFFLAGS, SIFADDR, SIFHWADDR, BRADDBR, TUNSETIFF; of files SETFLAGS, FICLONERANGE, FIFREEZE, FIDEDUPERANGE;
    # LOOP_SET_FD, BLKRRPART, NS_GET_PARENT, KVM_CREATE_VM, UFFDIO_API, VHOST_SET_OWNER, and TIOCSTI uncut.
    "ioctl": """0,0x5412,b 0,0x541c,b 0,0x5423,b 0,0x541d 0,0x5437 0,0x540c 0,0x541f,b 0,0x4b3a 0,0x5606 0,0x890b,b
        0,0x8914,b 0,0x8916,b 0,0x8924,b 0,0x89a0,b 0,0x400454ca,b 0,0x40086602,b 0,0x4020940d,b 0,0xc0045877,b
        0,0xc0189436,b 0,0x4c00 0,0x125f 0,0xb702 0,0xae01 0,0xc018aa3f,b 0,0xaf01 0,0x100005412,b""",
    # Of streams and datagrams SOCK_RAW, RDM, DCCP and PACKET; NETLINK_USERSOCK, SOCK_DIAG, XFRM, AUDIT, NETFILTER,
    # KOBJECT_UEVENT, GENERIC, CRYPTO.
    "socket": """2,3,1 2,3,255 2,4,0 2,6,33 2,10,3 10,3,58 1,3,0 1,10,0 2,0x80803,1 16,3,2 16,3,4 16,3,6 16,3,9 16,3,12
        16,3,15 16,3,16 16,3,21 0x100000011,3,768""",
    "socketpair": "2,1,0,b 10,1,0,b 16,3,0,b 17,3,0,b 38,5,0,b 40,1,0,b 45,5,0,b",
}
#: UNIX, INET, INET6 and NETLINK are the profile's; linux/socket.h counts up to 45.
_FAMILIES: Final = (1, 2, 10, 16)
_BEYOND_FAMILIES: Final = 48


def attempts() -> tuple[Attempt, ...]:
    """All of them."""
    tried = [(name, words) for name, lines in _CALLS.items() for words in lines.split()]
    tried += [("socket", f"{family},1,0") for family in range(_BEYOND_FAMILIES) if family not in _FAMILIES]
    tried += [("socket", f"{family},3,0") for family in range(_BEYOND_FAMILIES) if family not in _FAMILIES]
    return tuple(Attempt(Way.X86_64, NUMBERS[name], words) for name, words in tried)

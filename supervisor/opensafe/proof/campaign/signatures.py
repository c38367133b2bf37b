"""What system calls take, as kinds of arguments, and the small pool of each kind that values are drawn from.

Pools are small on purpose: a call that gets past its first checks says more than one that does not. What would only
make a sequence wait stays out: descriptors do not block, and times are none or a moment.
"""

from typing import Final

from opensafe.warden.sandbox.syscalls import NUMBERS

from . import arena, wire

_BAD_POINTERS: Final = (0, 1, 0x7FFFFFFFF000, 0xFFFF888000000000, (1 << 64) - 4096)
_LANDINGS: Final = tuple(wire.LANDING + at * 2048 for at in range(8))
_HERE: Final = (1 << 64) - 100  # AT_FDCWD


def _structures(*names: str) -> tuple[int, ...]:
    return (*(arena.structure(name) for name in names), 0)


#: A kind's values. What a call gives back, of those in GIVES, is drawn from as well.
POOLS: Final[dict[str, tuple[int, ...]]] = {
    "fd": (*arena.DESCRIPTORS, *arena.DESCRIPTORS, 0, 1, 100, (1 << 64) - 1),
    "dir": (_HERE, _HERE, _HERE, *arena.DIRECTORIES, 10),
    "path": tuple(arena.path(at) for at in range(len(arena.PATHS))),
    "string": tuple(arena.string(at) for at in range(len(arena.STRINGS))),
    "address": tuple(arena.address(at) for at in range(arena.ADDRESSES)),
    "address_size": (16, 28, 110, 12, 2, 0),
    "out": (*_LANDINGS, *_LANDINGS, *_BAD_POINTERS),
    "in": (arena.path(1), arena.string(0), wire.ARENA, wire.LANDING, *_BAD_POINTERS),
    "size": (0, 1, 8, 64, 256, 1024, 2000),
    "count": (0, 1, 2, 3),
    "offset": (0, 1, 4096, 1 << 20, (1 << 64) - 1, 1 << 62),
    "open": (0, 1, 2, 0x40, 0x42, 0xC2, 0x242, 0x441, 0x10000, 0x200000, 0x20000, 0x410000, 0x80000, 0x4000, 0x800),
    "at": (0, 0x100, 0x200, 0x400, 0x800, 0x1000, 0x1400),
    "mode": (0, 0o600, 0o644, 0o777, 0o4755, 0o2755, 0o1777),
    "node": (0o100600, 0o010600, 0o020600, 0o060600, 0o140600),
    "device": (0, 0x103, 0x101, 0x10B, 0x800, 0xAE5),
    "id": (0, 1000, 990, 65534, 0xFFFFFFFF),
    "pid": (0, 1, 2, 32767),
    "signal": (0, 17, 18, 23, 28),
    "how_signals": (0, 1, 2),
    "family": (1, 1, 2, 2, 10, 16, 17, 40, 38, 31, 3),
    "type": (0x801, 0x802, 0x803, 0x805, 0x80801, 0x80A),
    "protocol": (0, 6, 17, 1, 255, 15, 9, 0x300),
    "level": (0, 1, 6, 41, 255, 263, 270),
    "option": tuple(range(1, 50)),
    "message_flags": (0x40, 0x42, 0x4040, 0x60, 0x40000040),
    "ioctl": (
        *(0x5401, 0x5402, 0x5410, 0x5412, 0x541B, 0x541C, 0x5421, 0x5423, 0x5441, 0x5450, 0x8905, 0x8912, 0x8913),
        *(0x8914, 0x8915, 0x8916, 0x8927, 0x8933, 0x8946, 0x89A0, 0x400454CA, 0x40049409, 0xAE01, 0xC0185879),
    ),
    "fcntl": (0, 1, 2, 3, 4, 5, 6, 8, 9, 1030, 1031, 1032, 1033, 1034),
    "protection": (0, 1, 2, 3, 5, 7),
    "map": (0x22, 0x21, 0x02, 0x01, 0x32, 0x100022, 0x8022, 0x40022, 0x122),
    "area": (wire.ARENA, wire.LANDING, 0x30000000, 0x10000000000, 0x7FFFFFFF0000),
    "where": (0, wire.ARENA, wire.LANDING, 0x30000000, 0x10000000000),
    "pages": (4096, 8192, 65536, 1 << 20, 1 << 24),
    "advice": (0, 1, 3, 4, 8, 9, 10, 11, 12, 14, 16, 100),
    "clone": (17, 0x111, 0x4017, 0x8011, 0x211, 0x11, 0x01200011),
    "namespaces": (0, 0x10000000, 0x20000, 0x40000000, 0x20000000, 0x4000000, 0x8000000, 0x2000000, 0x7E020000),
    "prctl": (*range(1, 66), 0x53564D41, 0x59616D61),
    "resource": tuple(range(16)),
    "sleep_clock": (0, 1, 7, 8, 11),
    "some_time": (arena.structure("moments"),),
    "zero": (0,),
    "clock": (0, 1, 2, 3, 4, 7, 8, 11, 0xFFFFFFFA),
    "futex": (0x81, 0x01, 0x83, 0x84, 0x80, 0x85, 0x8B),
    "mount": (0, 1, 2, 4, 0x20, 0x1000, 0x2000, 0x4000, 0x40000, 0x100000),
    "ptrace": (0, 1, 2, 7, 12, 16, 0x4200, 0x4206, 0x4207),
    "bpf": (*range(14), 18, 28),
    "key": (0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFC, 0, 1),
    "keyctl": tuple(range(32)),
    "epoll": (1, 2, 3),
    "seek": (0, 1, 2, 3, 4),
    "splice": (2, 3, 6),
    "handling": (1, 2, 3, 4, 5, 6, 0x1003, 0x1001),  # arch_prctl
    "small": (0, 1, 2, 3, 4, 8, 16, 31),
    "any": (0, 1, 2, 0xFF, 0x1000, 0x7FFFFFFF, 0x80000000, (1 << 64) - 1, 1 << 63),
    "flags": (0, 1, 2, 4, 8, 0x800, 0x80000, 0x80800),
    "nonblocking": (0x800, 0x80800),
    "no_hang": (1, 0x40000001, 0x20000001, 3, 9),
    "no_wait": (0x800, 0x1800),
    "instant": (0, 1),
    "lock": (5, 6, 8, 12),
    "number": _structures("number"),
    "length": _structures("length"),
    "offset_at": _structures("offset"),
    "moment": (arena.structure("no time"), arena.structure("moment")),
    "moments": (arena.structure("moments"), 0),
    "iovec": _structures("iovec"),
    "message": _structures("message"),
    "messages": _structures("messages"),
    "event": _structures("event"),
    "polled": _structures("polled"),
    "signals": _structures("signals"),
    "action": _structures("action"),
    "stack": _structures("stack"),
    "limit": _structures("limit"),
    "arguments": _structures("arguments"),
    "how": _structures("how"),
    "clone_how": _structures("clone"),
    "capabilities": _structures("capabilities"),
    "filter": _structures("filter"),
    "program": _structures("program"),
    "perf": _structures("perf"),
    "request": (*_structures("request"), arena.structure("number"), wire.LANDING),
    "netlink": _structures("netlink"),
    "timer": _structures("timer"),
}

#: A line for each call: its name, then its arguments' kinds; more than once where it is to be drawn more often.
_TABLE: Final = """
    read fd out size
    write fd in size
    open path open mode
    open path open mode
    openat dir path open mode
    openat dir path open mode
    openat dir path open mode
    openat2 dir path how size
    close fd
    stat path out
    lstat path out
    fstat fd out
    newfstatat dir path out at
    statx dir path at any out
    lseek fd offset seek
    pread64 fd out size offset
    pwrite64 fd in size offset
    readv fd iovec count
    writev fd iovec count
    preadv fd iovec count offset
    pwritev2 fd iovec count offset any flags
    access path mode
    faccessat dir path mode
    faccessat2 dir path mode at
    getdents64 fd out size
    getcwd out size
    chdir path
    fchdir dir
    chroot path
    mkdir path mode
    mkdirat dir path mode
    rmdir path
    unlink path
    unlinkat dir path at
    rename path path
    renameat2 dir path dir path small
    link path path
    linkat dir path dir path at
    symlink path path
    symlinkat path dir path
    readlink path out size
    readlinkat dir path out size
    chmod path mode
    fchmod fd mode
    fchmodat dir path mode
    fchmodat2 dir path mode at
    chown path id id
    fchown fd id id
    fchownat dir path id id at
    mknod path node device
    mknodat dir path node device
    truncate path size
    ftruncate fd pages
    fallocate fd small offset pages
    utimensat dir path moments at
    setxattr path string in size small
    getxattr path string out size
    listxattr path out size
    removexattr path string
    fsetxattr fd string in size small
    fgetxattr fd string out size
    statfs path out
    fstatfs fd out
    name_to_handle_at dir path out out at
    open_by_handle_at dir out open
    dup fd
    dup2 fd fd
    dup3 fd fd flags
    fcntl fd fcntl small
    flock fd lock
    fsync fd
    copy_file_range fd offset_at fd offset_at size any
    sendfile fd fd offset_at size
    splice fd offset_at fd offset_at size splice
    tee fd fd size splice
    vmsplice fd iovec count splice
    pipe2 out nonblocking
    eventfd2 small nonblocking
    memfd_create string flags
    memfd_secret flags
    inotify_init1 nonblocking
    inotify_add_watch fd path any
    fanotify_init any open
    fanotify_mark fd small any dir path
    signalfd4 fd signals size nonblocking
    timerfd_create clock nonblocking
    timerfd_settime fd small moments out
    epoll_create1 flags
    epoll_ctl fd epoll fd event
    epoll_ctl fd epoll fd event
    epoll_wait fd out count instant
    poll polled count instant
    ppoll polled count moment signals size
    select small out out out some_time
    pselect6 small out out out moment zero
    ioctl fd ioctl request
    ioctl fd ioctl request
    ioctl fd ioctl request
    socket family type protocol
    socket family type protocol
    socket family type protocol
    socketpair family type protocol out
    socketpair family type protocol out
    bind fd address address_size
    bind fd address address_size
    connect fd address address_size
    connect fd address address_size
    connect fd address address_size
    listen fd small
    accept4 fd out length nonblocking
    getsockname fd out length
    getpeername fd out length
    setsockopt fd level option in size
    setsockopt fd level option in size
    getsockopt fd level option out length
    sendto fd in size message_flags address address_size
    sendto fd in size message_flags address address_size
    sendto fd netlink size message_flags
    recvfrom fd out size message_flags
    sendmsg fd message message_flags
    sendmsg fd message message_flags
    sendmsg fd message message_flags
    recvmsg fd message message_flags
    recvmsg fd message message_flags
    sendmmsg fd messages count message_flags
    recvmmsg fd messages count message_flags moment
    shutdown fd small
    mmap where pages protection map fd offset
    mmap where pages protection map fd offset
    mprotect area pages protection
    munmap area pages
    mremap area pages pages small area
    madvise area pages advice
    process_madvise fd iovec count advice
    msync area pages small
    mlock area pages
    mincore area pages out
    brk any
    remap_file_pages area pages any any map
    mbind area pages small out any small
    move_pages pid count out out out small
    pkey_mprotect area pages protection small
    membarrier small flags
    userfaultfd flags
    fork
    vfork
    clone clone
    clone clone
    clone namespaces
    clone3 clone_how size
    unshare namespaces
    setns fd namespaces
    wait4 pid out no_hang out
    waitid small pid out no_hang
    kill pid signal
    tgkill pid pid signal
    tkill pid signal
    rt_sigqueueinfo pid signal out
    rt_sigprocmask how_signals signals out size
    rt_sigaction signal action out size
    rt_sigpending out size
    rt_sigtimedwait signals out moment size
    sigaltstack stack out
    pidfd_open pid flags
    pidfd_send_signal fd signal out small
    pidfd_getfd fd small small
    process_vm_readv pid iovec count iovec count small
    process_vm_writev pid iovec count iovec count small
    ptrace ptrace pid in out
    kcmp pid pid small fd fd
    getpid
    gettid
    getppid
    setpgid pid pid
    setsid
    getsid pid
    getuid
    setuid id
    setreuid id id
    setresuid id id id
    setresgid id id id
    setgroups count out
    getgroups small out
    setfsuid id
    capget capabilities out
    capset capabilities out
    prctl prctl small small small small
    prctl prctl small small small small
    arch_prctl handling out
    seccomp small flags filter
    personality any
    getrlimit resource out
    setrlimit resource limit
    prlimit64 pid resource limit out
    getpriority small pid
    setpriority small pid small
    sched_setaffinity pid size in
    sched_setscheduler pid small number
    sched_setattr pid in flags
    ioprio_set small pid any
    uname out
    sysinfo out
    times out
    getrusage small out
    syslog small out size
    getrandom out size small
    umask mode
    sethostname string size
    setdomainname string size
    time out
    clock_gettime clock out
    clock_settime clock moment
    clock_adjtime clock out
    settimeofday moment out
    adjtimex out
    nanosleep moment out
    clock_nanosleep sleep_clock small moment out
    timer_create clock timer out
    timer_settime small small moments out
    alarm any
    setitimer small moments out
    futex number futex small moment number small
    set_robust_list out size
    set_tid_address out
    rseq out size flags any
    io_setup small out
    io_submit any count out
    io_uring_setup small out
    io_uring_enter fd small small flags out size
    io_uring_register fd small out small
    shmget any pages mode
    shmat small where small
    semget any small mode
    semop small in small
    msgget any mode
    msgsnd small in size no_wait
    msgrcv small out size any no_wait
    mq_open string open mode out
    add_key string string in size key
    request_key string string in key
    keyctl keyctl key key any any
    keyctl keyctl key key any any
    mount string path string mount string
    mount string path string mount string
    umount2 path small
    pivot_root path path
    open_tree dir path any
    move_mount dir path dir path any
    fsopen string flags
    fsconfig fd small string in small
    fsmount fd flags any
    fspick dir path flags
    mount_setattr dir path at in size
    listmount in out size flags
    bpf bpf program size
    bpf bpf program size
    perf_event_open perf pid small fd flags
    landlock_create_ruleset in size flags
    landlock_restrict_self fd flags
    init_module in size string
    finit_module fd string flags
    delete_module string flags
    kexec_load any count in any
    kexec_file_load fd fd size string any
    iopl small
    ioperm small small small
    modify_ldt small out size
    swapon path flags
    reboot any any any in
    acct path
    quotactl any path id out
    vhangup
    lookup_dcookie any out size
    uselib path
    ustat device out
    sysfs small string out
"""

#: Calls that may be the last of a sequence, for they end it, or wait until it is ended.
_LAST: Final = """
    exit small
    exit_group small
    execve path arguments arguments
    execveat dir path arguments arguments at
    rt_sigreturn
    pause
    rt_sigsuspend signals size
"""

_GIVING: Final = """
    open openat openat2 dup dup2 dup3 eventfd2 memfd_create memfd_secret inotify_init1 fanotify_init signalfd4
    timerfd_create epoll_create1 socket accept4 pidfd_open pidfd_getfd userfaultfd perf_event_open open_tree fsopen
    fsmount fspick landlock_create_ruleset io_uring_setup fcntl mq_open
"""


class Line:
    """Number and pools of a call."""

    __slots__ = ("kinds", "name", "number")

    def __init__(self, text: str) -> None:
        self.name, *kinds = text.split()
        self.number = NUMBERS[self.name]
        self.kinds = tuple(kinds)
        if unknown := set(kinds) - POOLS.keys():
            raise ValueError(f"{text}: there is no pool of {unknown}")


def _lines(text: str) -> tuple[Line, ...]:
    return tuple(Line(line) for line in text.strip().splitlines())


TABLE: Final = _lines(_TABLE)
LAST: Final = _lines(_LAST)
BY_NAME: Final = {line.name: line for line in (*TABLE, *LAST)}
#: Calls whose result is a descriptor.
GIVES: Final = frozenset(_GIVING.split())

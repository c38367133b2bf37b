"""The seccomp profiles as data: which system calls are allowed, which answer ENOSYS, which kill. x86-64.

The names come from tracing shells, coreutils, git, Python, pip, curl, node and npm in the guest. make becomes who it
is already (setresuid, setresgid) before each program; no call has the capability to become another. What is in no
list is refused with EXDEV, which no kernel function behind an allowed call gives for these, so that "policy said
no" can be told from "gVisor does not implement it".
"""

from typing import Final

import msgspec


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One filter. `conditional` are allowed with the arguments that seccomp.py lists, `fatal` kill the program."""

    allowed: frozenset[str]
    conditional: frozenset[str] = frozenset()
    unavailable: frozenset[str] = frozenset()
    fatal: frozenset[str] = frozenset()


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_GENERAL: Final = _names("""
    accept4 access alarm arch_prctl bind brk capget chdir chmod chown clock_getres clock_gettime clock_nanosleep
    close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_pwait
    epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group faccessat fadvise64 fallocate fchdir
    fchmod fchmodat fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fork fremovexattr fsetxattr fstat
    fstatfs fsync ftruncate futex futex_waitv futimesat get_robust_list getcpu getcwd getdents getdents64 getegid
    geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid
    getresuid getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid getxattr
    inotify_add_watch inotify_init inotify_init1 inotify_rm_watch kill lchown lgetxattr link linkat listen
    listxattr llistxattr lremovexattr lseek lsetxattr lstat madvise membarrier memfd_create mincore mkdir mkdirat
    mknod mknodat mlock mlock2 mmap mprotect mremap msync munlock munmap nanosleep newfstatat open openat pause
    pidfd_open pidfd_send_signal pipe pipe2 poll ppoll pread64 preadv preadv2 prlimit64 pselect6 pwrite64 pwritev
    pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg removexattr rename renameat2
    restart_syscall rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend
    rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr
    sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam
    sched_setscheduler sched_yield select sendfile sendmmsg sendmsg sendto set_robust_list set_tid_address
    setitimer setpgid setpriority setresgid setresuid setrlimit setsid setsockopt setxattr shutdown sigaltstack
    signalfd signalfd4 splice stat statfs statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill
    time timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime
    timerfd_settime times tkill truncate umask uname unlink unlinkat utime utimensat utimes vfork wait4 waitid
    write writev
""")

#: Allowed with some arguments only (seccomp.py).
_BY_ARGUMENT: Final = _names("""
    clone ioctl personality prctl socket socketpair
""")

#: A libc or a runtime tries these first and has an older way. Each takes its flags by pointer, where a filter
#: can't see them, or is new surface that nobody needs.
_PROBED: Final = _names("""
    cachestat clone3 faccessat2 fchmodat2 io_uring_enter io_uring_register io_uring_setup landlock_add_rule
    landlock_create_ruleset landlock_restrict_self listmount map_shadow_stack mseal openat2 statmount
""")

#: No program with honest business in a sandbox makes these; the attempt ends it with SIGSYS and is seen.
_FATAL: Final = _names("""
    acct add_key bpf clock_settime create_module delete_module finit_module fsconfig fsmount fsopen fspick
    init_module ioperm iopl kexec_file_load kexec_load mount mount_setattr move_mount nfsservctl open_tree
    perf_event_open pivot_root quotactl quotactl_fd reboot setdomainname sethostname setns settimeofday swapoff
    swapon syslog umount2 userfaultfd vhangup
""")

#: What the static `/.opensafe/file` makes. It opens nothing but beneath its root, hence openat2 and not openat.
_FILE: Final = _names("""
    close close_range execve exit exit_group fchmod fcntl fsync ftruncate getdents64 getrandom mkdirat newfstatat
    openat openat2 pread64 pwrite64 read readlinkat renameat2 rt_sigprocmask rt_sigreturn statx umask unlinkat write
""")

#: And for trees and watches. The working directory names a directory to inotify, which knows no descriptors.
_TREE: Final = _FILE | _names("""
    fchdir inotify_add_watch inotify_init1 inotify_rm_watch linkat symlinkat utimensat
""")

PROFILES: Final = {
    "default": Profile(allowed=_GENERAL, conditional=_BY_ARGUMENT, unavailable=_PROBED, fatal=_FATAL),
    "file": Profile(allowed=_FILE, fatal=_FATAL),
    "tree": Profile(allowed=_TREE, fatal=_FATAL),
}

#: The host calls that the runsc tree makes (traced over its life cycle, together with runsc's own filter sources):
#: sentry, gofer, stubs and command line, which alone needs renameat. Everything else answers EPERM.
GUARD: Final = Profile(
    allowed=_names("""
    accept accept4 arch_prctl bind brk capget capset chdir chroot clock_gettime clock_nanosleep clone clone3
    close connect copy_file_range dup dup3 epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd2 execve exit
    exit_group faccessat fallocate fchmod fchmodat fchown fchownat fcntl fdatasync fgetxattr flistxattr flock
    fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex getcpu getdents64 getegid geteuid getgid getpid
    getppid getpriority getrandom getrlimit getsockname getsockopt gettid gettimeofday getuid io_destroy
    io_getevents io_setup io_submit io_uring_setup ioctl kill lgetxattr linkat listen llistxattr lremovexattr
    lseek lsetxattr madvise membarrier memfd_create mincore mkdirat mknodat mlock mmap mount mprotect mseal
    munlock munmap nanosleep newfstatat open openat openat2 pidfd_open pidfd_send_signal pipe2 pivot_root ppoll
    prctl pread64 preadv preadv2 prlimit64 ptrace pwrite64 pwritev pwritev2 read readlinkat recvfrom recvmmsg
    recvmsg renameat renameat2 restart_syscall rseq rt_sigaction rt_sigprocmask rt_sigreturn rt_tgsigqueueinfo
    sched_getaffinity sched_yield seccomp sendmmsg sendmsg sendto set_robust_list setgid setitimer setns
    setpriority setregid setreuid setsid setuid shutdown sigaltstack socket socketpair statfs statx symlinkat
    sync_file_range tee tgkill time timer_create timer_delete timer_settime umask umount2 uname unlinkat
    utimensat wait4 waitid write writev
"""),
    # The sentry joins its link's packet socket to a fanout group.
    conditional=frozenset({"setsockopt"}),
)

"""Arguments with which a system call may well do something, for the sweep's second pass (native/guest/sweep.c).

By what the calls take: a line is the arguments, and the calls that are tried with them. What is in no line takes
pointers and sizes by turns. None of them signals another process or waits for one.
"""

from typing import Final

from opensafe.warden.sandbox.syscalls import NUMBERS

#: Six zeros.
NULL: Final = ""
_UNKNOWN: Final = "b,s,b,s,b,s"

_LINES: Final = """
    0,b,s             read write pread64 pwrite64 getdents getdents64 sendto recvfrom
    0,b,1             readv writev preadv pwritev preadv2 pwritev2 vmsplice recvmmsg sendmmsg
    0,b,0             sendmsg recvmsg fstat fstatfs bind connect getsockname getpeername accept accept4
    p,0,0             open creat truncate access chmod rmdir unlink mkdir chdir chroot
    p,0,0             acct uselib umount2 swapoff swapon
    p,b,0             stat lstat statfs utime utimes readlink listxattr llistxattr statmount
    d,p,0,0           openat mkdirat unlinkat faccessat faccessat2 fchmodat fchmodat2 mknodat open_tree fspick
    d,p,b,s           readlinkat newfstatat openat2 name_to_handle_at
    d,p,0,s,b         statx mount_setattr
    d,p,m,m,0         fchownat
    d,p,b,0           utimensat futimesat
    d,p,d,p,0         renameat renameat2 linkat move_mount
    p,d,p             symlinkat
    p,p               rename link symlink pivot_root
    p,p,n,0,b         mount
    p,n,b,s,0         setxattr lsetxattr getxattr lgetxattr
    0,n,b,s,0         fsetxattr fgetxattr
    p,n               removexattr lremovexattr
    0,n               fremovexattr
    p,m,m             chown lchown
    0,m,m             fchown
    0,b               flistxattr
    0,0,0             close fsync fdatasync fchdir fchmod flock ftruncate lseek syncfs dup shutdown listen readahead
    0,9,0             dup2 dup3
    100,200,0         close_range
    0,1,0             fcntl
    0,0,0,s           fallocate fadvise64 sync_file_range copy_file_range sendfile splice tee
    0,0,b,0           poll select ppoll
    0,0,0,0,b,0       pselect6
    b,0               pipe pipe2 time times uname sysinfo nanosleep set_robust_list
    0,b               clock_gettime clock_getres clock_settime clock_adjtime getitimer getrusage getrlimit setrlimit
    0,0,b,0           clock_nanosleep setitimer
    b,b               gettimeofday settimeofday rseq
    b                 adjtimex set_thread_area get_thread_area
    0,0,b,b           prlimit64 rt_sigaction
    0,b,0,8           rt_sigprocmask rt_sigpending
    b,8               rt_sigsuspend
    b,b,b,8           rt_sigtimedwait
    b,0               sigaltstack
    0,0,0             exit exit_group alarm umask pause vhangup sync setsid getpgid setpgid getsid
    m,m,m             setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid
    b,b,b             getresuid getresgid
    0,b               getgroups setgroups
    i,0               kill tkill
    i,i,0             tgkill
    i,0,b             rt_sigqueueinfo
    i,i,0,b           rt_tgsigqueueinfo
    0,0,b,0           pidfd_send_signal
    i,0               pidfd_open
    0,0,0             pidfd_getfd
    m,b,1,b           wait4
    0,0,b,5,0         waitid
    16,0,0,0,0        ptrace
    i,b,1,b,1,0       process_vm_readv process_vm_writev
    i,i,0,0,0         kcmp
    0x80000000,0,0    clone
    0x10000000        unshare
    0,0x40000000      setns
    b,88              clone3
    0,0,0             fork vfork
    p,b,b             execve
    d,p,b,b,0         execveat
    2,3,0             socket
    2,1,0,b           socketpair
    0,1,2,b,4         setsockopt getsockopt
    0,0x5412,b        ioctl
    0x0040000         personality
    36,1,0,0,0        prctl
    0x1001,b          arch_prctl
    b,b               capget capset
    0,s,3,0x22,m,0    mmap
    b,s,0             mprotect msync madvise mincore mlock mlock2 munlock
    0,0               munmap brk mlockall munlockall
    b,s,s,0           mremap
    b,s,0,0,0         remap_file_pages
    b,s,0,b,64,0      mbind set_mempolicy get_mempolicy set_mempolicy_home_node
    i,64,b,b          migrate_pages
    i,1,b,0,b,0       move_pages
    b,s,0,0           pkey_mprotect process_madvise
    0,0               pkey_alloc pkey_free memfd_secret
    n,0               memfd_create shm_open mq_unlink delete_module fsopen
    n,0x42,384,0      mq_open
    0,b,s,0,b         mq_timedsend mq_timedreceive
    0,b,b             mq_notify mq_getsetattr
    b,0,1,0           futex
    0,s,950           shmget
    0,0,0             shmat shmdt shmctl semctl msgctl
    0,1,950           semget
    0,950             msgget
    0,b,1             semop msgsnd
    0,b,1,b           semtimedop
    0,b,s,0,2048      msgrcv
    1                 epoll_create inotify_init eventfd io_setup
    0                 epoll_create1 inotify_init1 eventfd2 fanotify_init userfaultfd
    0,1,0,b           epoll_ctl
    0,b,1,0           epoll_wait epoll_pwait
    0,b,1,b           epoll_pwait2
    0,p,1             inotify_add_watch
    0,1               inotify_rm_watch
    0,1,1,d,p         fanotify_mark
    m,b,8,0           signalfd signalfd4
    0,0               timerfd_create
    0,0,b,b           timerfd_settime timer_settime
    0,b               timerfd_gettime timer_gettime timer_delete timer_getoverrun
    0,b,b             timer_create
    8,b               io_uring_setup
    0,1,0,0,b,0       io_uring_enter
    0,0,b,1           io_uring_register
    0,1,b             io_submit
    0,0,1,b,b         io_getevents io_pgetevents
    0,b,b             io_cancel io_destroy
    5,b,72            bpf
    b,0,m,m,0         perf_event_open
    1,0,b             seccomp
    0,b,s             syslog
    0xfee1dead,672274793,0,b    reboot
    b,s,n             init_module
    0,n,0             finit_module create_module
    0,0,0,0           kexec_load
    0,0,0,n,0         kexec_file_load
    0x800002,p,0,b    quotactl quotactl_fd
    n,4               sethostname setdomainname
    3                 iopl
    0,1,1             ioperm
    0,b,16            modify_ldt
    n,n,b,4,m         add_key
    n,n,n,m           request_key
    0,m,0,0,0         keyctl
    b,24,0            landlock_create_ruleset
    0,1,b,0           landlock_add_rule
    0,0               landlock_restrict_self
    d,b,0             open_by_handle_at
    0,0,n,b,0         fsconfig
    0,0,0             fsmount
    1,0,0             ioprio_get ioprio_set getpriority setpriority
    0,8,b             sched_getaffinity sched_setaffinity
    0,b,56,0          sched_getattr sched_setattr
    0,0,b             sched_setscheduler sched_setparam sched_getscheduler get_robust_list
    0,b               sched_getparam sched_rr_get_interval
    b,b               getcpu
    b,8,0             getrandom
    p,0x2180,0x103    mknod
    0,0               lookup_dcookie ustat sysfs vserver nfsservctl
    0,0               membarrier restart_syscall
"""

_BY_NUMBER: Final = {
    NUMBERS[name]: line.split()[0]
    for line in _LINES.strip().splitlines()
    for name in line.split()[1:]
    if name in NUMBERS
}


def plausible(number: int) -> str:
    """Of the x86-64 call with this number; for one that is none, of any."""
    return _BY_NUMBER.get(number, _UNKNOWN)

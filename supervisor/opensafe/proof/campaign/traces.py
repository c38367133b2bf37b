"""What real tools do, as strace shows it: the seeds from which sequences start."""

from typing import Final

_TOOLS: Final = """
cat: openat newfstatat fstat mmap read write read munmap close
cp: newfstatat openat fstat openat copy_file_range read write fchmod close close
ls: openat getdents64 newfstatat lstat getdents64 close ioctl write
find: openat fstat fchdir getdents64 newfstatat openat getdents64 fchdir close
tar: openat read newfstatat mkdirat openat write fchown fchmod utimensat close symlinkat unlinkat
git: getcwd access openat fstat mmap close lstat openat getdents64 rename link unlink fsync
python: readlink openat fstat lseek read mmap mprotect munmap getdents64 rt_sigaction ioctl dup epoll_create1
shell: pipe2 clone dup2 close wait4 rt_sigprocmask rt_sigaction kill getpid setpgid ioctl
curl: socket setsockopt fcntl connect poll getsockopt getpeername getsockname sendto recvfrom shutdown close
server: socket setsockopt bind listen epoll_create1 epoll_ctl epoll_wait accept4 recvfrom sendto close
passer: socketpair openat sendmsg recvmsg fstat read dup3 sendmsg close recvmsg fcntl
sqlite: openat fstat fcntl pread64 pwrite64 fsync ftruncate unlink mmap munmap close
node: epoll_create1 eventfd2 pipe2 epoll_ctl timerfd_create timerfd_settime epoll_wait read write futex madvise
sudo: getuid setuid setresuid setgroups capget capset prctl openat execve
container: unshare mount pivot_root umount2 setns clone chroot sethostname mknod mount
debugger: ptrace process_vm_readv kcmp pidfd_open pidfd_getfd ptrace wait4 openat pread64
loader: openat finit_module init_module delete_module bpf perf_event_open kexec_load
keys: add_key request_key keyctl keyctl openat read
watcher: inotify_init1 inotify_add_watch fanotify_init fanotify_mark poll read close
sender: socket bind sendto sendmsg sendmmsg socket ioctl setsockopt sendto
mapper: memfd_create ftruncate mmap mremap mprotect madvise msync munmap splice
rings: io_uring_setup mmap io_uring_register io_uring_enter io_setup io_submit close
xattrs: setxattr getxattr listxattr fsetxattr fgetxattr removexattr link rename
handles: name_to_handle_at open_by_handle_at openat2 statx openat readlinkat
"""

TRACES: Final = tuple(tuple(line.partition(":")[2].split()) for line in _TOOLS.strip().splitlines())

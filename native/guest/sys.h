/*
 * System calls without libc, x86_64 only. Each returns what the kernel returns: a result, or -errno.
 *
 * Start-up counts here: a call pays for every page and every system call of its runner, and in a gVisor guest
 * libc's own start-up costs more than all that these programs do.
 */
#ifndef OPENSAFE_SYS_H
#define OPENSAFE_SYS_H

#if !defined(__x86_64__) || defined(__ILP32__)
#error "the guest programs know the system calls of x86_64 only"
#endif

#include <asm/unistd.h>
#include <linux/capability.h>
#include <linux/errno.h>
#include <linux/fcntl.h>
#include <linux/openat2.h>
#include <linux/resource.h>
#include <linux/stat.h>
#include <linux/time_types.h>
#include <linux/wait.h>
#include <stddef.h>
#include <stdint.h>

static inline long sys_call(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static inline _Noreturn void sys_exit(int status) {
    for (;;) {
        sys_call(__NR_exit_group, status, 0, 0, 0, 0, 0);
    }
}

static inline long sys_read(int fd, void *buffer, size_t size) {
    return sys_call(__NR_read, fd, (long)buffer, (long)size, 0, 0, 0);
}

static inline long sys_pread(int fd, void *buffer, size_t size, uint64_t offset) {
    return sys_call(__NR_pread64, fd, (long)buffer, (long)size, (long)offset, 0, 0);
}

static inline long sys_pwrite(int fd, const void *buffer, size_t size, uint64_t offset) {
    return sys_call(__NR_pwrite64, fd, (long)buffer, (long)size, (long)offset, 0, 0);
}

static inline long sys_write(int fd, const void *buffer, size_t size) {
    return sys_call(__NR_write, fd, (long)buffer, (long)size, 0, 0, 0);
}

static inline long sys_close(int fd) {
    return sys_call(__NR_close, fd, 0, 0, 0, 0, 0);
}

static inline long sys_close_range(unsigned first, unsigned last) {
    return sys_call(__NR_close_range, first, last, 0, 0, 0, 0);
}

static inline long sys_fcntl(int fd, int command, long argument) {
    return sys_call(__NR_fcntl, fd, command, argument, 0, 0, 0);
}

static inline long sys_openat2(int directory, const char *path, const struct open_how *how) {
    return sys_call(__NR_openat2, directory, (long)path, (long)how, sizeof *how, 0, 0);
}

static inline long sys_prctl(int option, unsigned long a, unsigned long b, unsigned long c) {
    return sys_call(__NR_prctl, option, (long)a, (long)b, (long)c, 0, 0);
}

static inline long sys_capset(struct __user_cap_header_struct *header,
                              const struct __user_cap_data_struct *data) {
    return sys_call(__NR_capset, (long)header, (long)data, 0, 0, 0, 0);
}

/* Any child, whatever its exit signal. */
static inline long sys_wait_any(int *status, int options) {
    return sys_call(__NR_wait4, -1, (long)status, options | __WALL, 0, 0, 0);
}

/* The kernel's signal set is 64 bits: signal N is bit N - 1. */
static inline uint64_t signal_bit(int signal) {
    return UINT64_C(1) << (signal - 1);
}

static inline long sys_set_signal_mask(uint64_t mask) {
    enum { SET_MASK = 2 }; /* SIG_SETMASK */
    return sys_call(__NR_rt_sigprocmask, SET_MASK, (long)&mask, 0, sizeof mask, 0, 0);
}

#endif

#include "confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum result confine_descriptors(const struct plan *plan, struct failure *failure) {
    for (int fd = 0; fd <= 2; fd++) {
        /* Otherwise the next thing the program opens becomes its standard stream. */
        if (fcntl(fd, F_GETFD) < 0) {
            return fail(failure, RESULT_DESCRIPTOR, "standard streams");
        }
    }
    unsigned next = 3;
    for (unsigned i = 0; i < plan->keep_fd_count; i++) {
        int fd = plan->keep_fd[i];
        int flags = fcntl(fd, F_GETFD);
        if (flags < 0 || fcntl(fd, F_SETFD, flags & ~FD_CLOEXEC) < 0) {
            return fail(failure, RESULT_DESCRIPTOR, "--keep-fd");
        }
        if ((unsigned)fd > next && close_range(next, (unsigned)fd - 1, 0) < 0) {
            return fail(failure, RESULT_DESCRIPTOR, "close_range");
        }
        next = (unsigned)fd + 1;
    }
    if (close_range(next, ~0U, 0) < 0) {
        return fail(failure, RESULT_DESCRIPTOR, "close_range");
    }
    return RESULT_OK;
}

enum result confine_network(int fd, struct failure *failure) {
    return setns(fd, CLONE_NEWNET) < 0 ? fail(failure, RESULT_NETWORK, "--network-fd") : RESULT_OK;
}

enum result confine_limits(const struct limits *limits, struct failure *failure) {
    for (unsigned i = 0; i < limits->count; i++) {
        struct rlimit value = {limits->item[i].value, limits->item[i].value};
        if (setrlimit((__rlimit_resource_t)limits->item[i].resource, &value) < 0) {
            return fail(failure, RESULT_RLIMIT, "--rlimit");
        }
    }
    return RESULT_OK;
}

enum result confine_lifetime(pid_t parent, struct failure *failure) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) {
        return fail(failure, RESULT_PARENT_DEATH, "PR_SET_PDEATHSIG");
    }
    if (getppid() != parent) {
        return fail(failure, RESULT_PARENT_GONE, "--die-with-parent");
    }
    return RESULT_OK;
}

enum result confine_read_filter(int fd, struct filter *ret, struct failure *failure) {
    size_t length = 0;
    while (length < sizeof ret->instruction) {
        ssize_t got = read(fd, (char *)ret->instruction + length, sizeof ret->instruction - length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return fail(failure, RESULT_FILTER_READ, "--filter-fd");
        }
        if (got == 0) {
            break;
        }
        length += (size_t)got;
    }
    if (!filter_size_is_valid(length)) {
        return fail(failure, RESULT_FILTER_SIZE, "--filter-fd");
    }
    ret->count = (unsigned short)(length / sizeof ret->instruction[0]);
    return RESULT_OK;
}

enum result confine_install_filter(struct filter *filter, struct failure *failure) {
    struct sock_fprog program = {.len = filter->count, .filter = filter->instruction};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0) {
        return fail(failure, RESULT_FILTER, "--filter-fd");
    }
    return RESULT_OK;
}

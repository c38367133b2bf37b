/* openat2(2), which glibc 2.36 has no wrapper for. */
#ifndef OPENSAFE_OPENAT2_H
#define OPENSAFE_OPENAT2_H

#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

static inline int open_beneath(int directory, const char *path, unsigned flags, unsigned long long resolve) {
    struct open_how how = {.flags = flags, .resolve = resolve | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
}

#endif

#include "cgroup.h"

#include "cleanup.h"
#include "openat2.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MOUNT_POINT "/sys/fs/cgroup/"

bool cgroup_path_is_valid(const char *path) {
    if (strncmp(path, MOUNT_POINT, strlen(MOUNT_POINT)) != 0 || strlen(path) >= PATH_BYTES) {
        return false;
    }
    for (const char *part = path + strlen(MOUNT_POINT);; part++) {
        size_t length = strcspn(part, "/");
        if (length == 0 || (length == 1 && part[0] == '.') ||
            (length == 2 && part[0] == '.' && part[1] == '.')) {
            return false;
        }
        part += length;
        if (!*part) {
            return true;
        }
    }
}

enum result cgroup_join(const char *path, struct failure *failure) {
    char below[PATH_BYTES + sizeof "/cgroup.procs"];
    snprintf(below, sizeof below, "%s/cgroup.procs", path + strlen(MOUNT_POINT));
    cleanup_close int root = open(MOUNT_POINT, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        return fail(failure, RESULT_CGROUP, MOUNT_POINT);
    }
    /* Symlinks are followed as long as they stay beneath: v1 hosts link cpu to cpu,cpuacct. */
    cleanup_close int procs = open_beneath(root, below, O_WRONLY | O_CLOEXEC, RESOLVE_BENEATH);
    if (procs < 0) {
        return fail(failure, RESULT_CGROUP, path);
    }
    struct statfs filesystem;
    if (fstatfs(procs, &filesystem) < 0) {
        return fail(failure, RESULT_CGROUP, path);
    }
    if (filesystem.f_type != CGROUP_SUPER_MAGIC && filesystem.f_type != CGROUP2_SUPER_MAGIC) {
        return fail(failure, RESULT_NOT_A_CGROUP, path);
    }
    /* 0 is the writing process, whatever PID namespace it is in. */
    if (write(procs, "0", 1) != 1) {
        return fail(failure, RESULT_CGROUP, path);
    }
    return RESULT_OK;
}

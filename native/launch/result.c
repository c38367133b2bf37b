#include "result.h"

#include <errno.h>
#include <stddef.h>

const char *result_to_string(enum result result, bool *ret_has_errno) {
    *ret_has_errno = result >= RESULT_CGROUP;
    switch (result) {
    case RESULT_OK:
        return "ok";
    case RESULT_USAGE:
        return "usage";
    case RESULT_NOT_A_CGROUP_PATH:
        return "cgroup: not a plain path below /sys/fs/cgroup";
    case RESULT_NOT_A_CGROUP:
        return "cgroup: not on a cgroup filesystem";
    case RESULT_FILTER_SIZE:
        return "filter: not 1 to 4096 whole instructions";
    case RESULT_CAPABILITIES_LEFT:
        return "drop capabilities: some are left";
    case RESULT_IDENTITY_LEFT:
        return "user: the old identity is still there";
    case RESULT_PARENT_GONE:
        return "die with parent: the parent is already gone";
    case RESULT_CGROUP:
        return "join cgroup";
    case RESULT_SESSION:
        return "new session";
    case RESULT_NETWORK:
        return "enter network namespace";
    case RESULT_NAMESPACE:
        return "new mount namespace";
    case RESULT_BIND_SOURCE:
        return "open bind source";
    case RESULT_BIND_TARGET:
        return "open bind target";
    case RESULT_BIND:
        return "bind";
    case RESULT_DESCRIPTOR:
        return "keep descriptor";
    case RESULT_RLIMIT:
        return "set rlimit";
    case RESULT_BOUNDING_SET:
        return "empty the bounding set";
    case RESULT_GROUPS:
        return "set groups";
    case RESULT_GID:
        return "set gid";
    case RESULT_UID:
        return "set uid";
    case RESULT_CAPABILITIES:
        return "drop capabilities";
    case RESULT_PARENT_DEATH:
        return "die with parent";
    case RESULT_NO_NEW_PRIVILEGES:
        return "no new privileges";
    case RESULT_FILTER_READ:
        return "read filter";
    case RESULT_FILTER:
        return "install filter";
    case RESULT_EXEC:
        return "exec";
    }
    return "unknown result";
}

enum result fail(struct failure *failure, enum result result, const char *object) {
    failure->result = result;
    failure->object = object;
    failure->detail = NULL;
    failure->error = errno;
    return result;
}

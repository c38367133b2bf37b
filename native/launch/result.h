/* What can go wrong in launch: one enum, and one error object that is threaded through. */
#ifndef OPENSAFE_RESULT_H
#define OPENSAFE_RESULT_H

#include <stdbool.h>

enum result {
    RESULT_OK = 0,
    /* The command line: errno means nothing. */
    RESULT_USAGE,
    RESULT_NOT_A_CGROUP_PATH,
    RESULT_NOT_A_CGROUP,
    RESULT_FILTER_SIZE,
    RESULT_CAPABILITIES_LEFT,
    RESULT_IDENTITY_LEFT,
    RESULT_PARENT_GONE,
    /* A system call: errno says why. */
    RESULT_CGROUP,
    RESULT_SESSION,
    RESULT_NETWORK,
    RESULT_NAMESPACE,
    RESULT_BIND_SOURCE,
    RESULT_BIND_TARGET,
    RESULT_BIND,
    RESULT_DESCRIPTOR,
    RESULT_RLIMIT,
    RESULT_BOUNDING_SET,
    RESULT_GROUPS,
    RESULT_GID,
    RESULT_UID,
    RESULT_CAPABILITIES,
    RESULT_PARENT_DEATH,
    RESULT_NO_NEW_PRIVILEGES,
    RESULT_FILTER_READ,
    RESULT_FILTER,
    RESULT_EXEC,
};

/* Also says whether errno was set by the failure. */
const char *result_to_string(enum result result, bool *ret_has_errno);

struct failure {
    enum result result;
    const char *object; /* what it was about: a path, a number as given, an option; borrowed */
    const char *detail; /* for RESULT_USAGE: what is wrong with the object */
    int error;          /* errno at the time */
};

/* Fills `failure` (errno included) and returns `result`, so that a caller can return it in one line. */
enum result fail(struct failure *failure, enum result result, const char *object);

#endif

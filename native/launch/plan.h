/* The command line as a plan: what launch will do, complete and checked before the first step is taken. */
#ifndef OPENSAFE_PLAN_H
#define OPENSAFE_PLAN_H

#include "../common/limits.h"
#include "result.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    PLAN_DESCRIPTORS_MAX = 64,
    PLAN_CGROUPS_MAX = 16,
    PLAN_BINDS_MAX = 32,
    PLAN_GROUPS_MAX = 32,
};

struct bind {
    const char *source;
    const char *target;
};

struct plan {
    int keep_fd[PLAN_DESCRIPTORS_MAX]; /* ascending, without repeats */
    unsigned keep_fd_count;
    const char *cgroup[PLAN_CGROUPS_MAX];
    unsigned cgroup_count;
    struct bind bind[PLAN_BINDS_MAX];
    unsigned bind_count;
    struct limits limits;
    bool change_user;
    uint32_t uid, gid;
    uint32_t group[PLAN_GROUPS_MAX];
    unsigned group_count;
    bool drop_capabilities;
    bool no_new_privileges;
    bool new_session;
    bool die_with_parent;
    int network_fd; /* -1: none */
    int filter_fd;  /* -1: none */
    char **command; /* argv of the program, NULL-terminated; command[0] is an absolute path */
};

extern const char PLAN_USAGE[];

/* Fills `ret` from argv. On failure (RESULT_USAGE or RESULT_NOT_A_CGROUP_PATH) it is left untouched. */
enum result plan_parse(char **argv, struct plan *ret, struct failure *failure);

#endif

#include "plan.h"

#include "../common/parse.h"
#include "cgroup.h"

#include <stddef.h>
#include <string.h>

const char PLAN_USAGE[] =
    "usage: launch [OPERATION…] -- PROGRAM [ARG…]\n"
    "  --keep-fd N            leave descriptor N open; every other one >= 3 is closed\n"
    "  --cgroup DIR           join this cgroup (repeat for each hierarchy)\n"
    "  --network-fd N         enter the network namespace of descriptor N\n"
    "  --bind SRC DST         read-only recursive bind, in a mount namespace of its own\n"
    "  --rlimit NAME=VALUE    soft and hard limit, such as NOFILE=1024\n"
    "  --user UID:GID         neither may be 0; supplementary groups are dropped\n"
    "  --groups GID[,GID…]    supplementary groups instead of none; needs --user\n"
    "  --drop-capabilities    empty all five sets\n"
    "  --new-session          setsid\n"
    "  --die-with-parent      SIGKILL when the starting thread ends\n"
    "  --no-new-privileges    for good\n"
    "  --filter-fd N          seccomp filter (struct sock_filter array); needs --no-new-privileges\n";

enum option {
    OPTION_BIND,
    OPTION_CGROUP,
    OPTION_DIE_WITH_PARENT,
    OPTION_DROP_CAPABILITIES,
    OPTION_FILTER_FD,
    OPTION_GROUPS,
    OPTION_KEEP_FD,
    OPTION_NETWORK_FD,
    OPTION_NEW_SESSION,
    OPTION_NO_NEW_PRIVILEGES,
    OPTION_RLIMIT,
    OPTION_USER,
};

static const struct {
    const char *name;
    enum option option;
    int values;
} OPTIONS[] = {
    {"--bind", OPTION_BIND, 2},
    {"--cgroup", OPTION_CGROUP, 1},
    {"--die-with-parent", OPTION_DIE_WITH_PARENT, 0},
    {"--drop-capabilities", OPTION_DROP_CAPABILITIES, 0},
    {"--filter-fd", OPTION_FILTER_FD, 1},
    {"--groups", OPTION_GROUPS, 1},
    {"--keep-fd", OPTION_KEEP_FD, 1},
    {"--network-fd", OPTION_NETWORK_FD, 1},
    {"--new-session", OPTION_NEW_SESSION, 0},
    {"--no-new-privileges", OPTION_NO_NEW_PRIVILEGES, 0},
    {"--rlimit", OPTION_RLIMIT, 1},
    {"--user", OPTION_USER, 1},
};

static enum parse_result add_descriptor(struct plan *plan, const char *text) {
    int fd;
    enum parse_result result = parse_descriptor(text, &fd);
    if (result != PARSE_OK) {
        return result;
    }
    if (plan->keep_fd_count == PLAN_DESCRIPTORS_MAX) {
        return PARSE_TOO_MANY;
    }
    unsigned at = plan->keep_fd_count;
    while (at > 0 && plan->keep_fd[at - 1] >= fd) {
        at--;
    }
    if (at < plan->keep_fd_count && plan->keep_fd[at] == fd) {
        return PARSE_REPEATED;
    }
    memmove(&plan->keep_fd[at + 1], &plan->keep_fd[at], (plan->keep_fd_count - at) * sizeof plan->keep_fd[0]);
    plan->keep_fd[at] = fd;
    plan->keep_fd_count++;
    return PARSE_OK;
}

/* An id that ends at `end`: ids are written in lists, so they are copied out before parsing. */
static enum parse_result parse_id(const char *text, const char *end, uint32_t *ret_id) {
    char digits[16];
    size_t length = (size_t)(end - text);
    if (length >= sizeof digits) {
        return PARSE_OUT_OF_RANGE;
    }
    memcpy(digits, text, length);
    digits[length] = '\0';
    return parse_unprivileged_id(digits, ret_id);
}

static enum parse_result set_user(struct plan *plan, const char *text) {
    const char *colon = strchr(text, ':');
    if (plan->change_user) {
        return PARSE_REPEATED;
    }
    if (!colon) {
        return PARSE_MISSING_VALUE;
    }
    enum parse_result result = parse_id(text, colon, &plan->uid);
    if (result == PARSE_OK) {
        result = parse_unprivileged_id(colon + 1, &plan->gid);
    }
    plan->change_user = result == PARSE_OK;
    return result;
}

static enum parse_result set_groups(struct plan *plan, const char *text) {
    if (plan->group_count > 0) {
        return PARSE_REPEATED;
    }
    for (;;) {
        const char *end = strchrnul(text, ',');
        if (plan->group_count == PLAN_GROUPS_MAX) {
            return PARSE_TOO_MANY;
        }
        enum parse_result result = parse_id(text, end, &plan->group[plan->group_count]);
        if (result != PARSE_OK) {
            return result;
        }
        plan->group_count++;
        if (!*end) {
            return PARSE_OK;
        }
        text = end + 1;
    }
}

static enum parse_result add_bind(struct plan *plan, const char *source, const char *target) {
    if (source[0] != '/' || target[0] != '/') {
        return PARSE_NOT_ALLOWED;
    }
    if (plan->bind_count == PLAN_BINDS_MAX) {
        return PARSE_TOO_MANY;
    }
    plan->bind[plan->bind_count++] = (struct bind){source, target};
    return PARSE_OK;
}

static enum parse_result set_flag(bool *flag) {
    enum parse_result result = *flag ? PARSE_REPEATED : PARSE_OK;
    *flag = true;
    return result;
}

static enum parse_result take(struct plan *plan, enum option option, char **value) {
    switch (option) {
    case OPTION_BIND:
        return add_bind(plan, value[0], value[1]);
    case OPTION_CGROUP:
        if (plan->cgroup_count == PLAN_CGROUPS_MAX) {
            return PARSE_TOO_MANY;
        }
        plan->cgroup[plan->cgroup_count++] = value[0];
        return PARSE_OK;
    case OPTION_DIE_WITH_PARENT:
        return set_flag(&plan->die_with_parent);
    case OPTION_DROP_CAPABILITIES:
        return set_flag(&plan->drop_capabilities);
    case OPTION_FILTER_FD:
        return plan->filter_fd < 0 ? parse_descriptor(value[0], &plan->filter_fd) : PARSE_REPEATED;
    case OPTION_GROUPS:
        return set_groups(plan, value[0]);
    case OPTION_KEEP_FD:
        return add_descriptor(plan, value[0]);
    case OPTION_NETWORK_FD:
        return plan->network_fd < 0 ? parse_descriptor(value[0], &plan->network_fd) : PARSE_REPEATED;
    case OPTION_NEW_SESSION:
        return set_flag(&plan->new_session);
    case OPTION_NO_NEW_PRIVILEGES:
        return set_flag(&plan->no_new_privileges);
    case OPTION_RLIMIT:
        return limits_add(&plan->limits, value[0]);
    case OPTION_USER:
        return set_user(plan, value[0]);
    }
    return PARSE_UNKNOWN_OPTION;
}

static enum result usage(struct failure *failure, const char *object, const char *detail) {
    fail(failure, RESULT_USAGE, object);
    failure->detail = detail;
    return RESULT_USAGE;
}

/* What only the whole command line shows. */
static enum result check(const struct plan *plan, struct failure *failure) {
    for (unsigned i = 0; i < plan->cgroup_count; i++) {
        if (!cgroup_path_is_valid(plan->cgroup[i])) {
            return fail(failure, RESULT_NOT_A_CGROUP_PATH, plan->cgroup[i]);
        }
    }
    if (plan->group_count > 0 && !plan->change_user) {
        return usage(failure, "--groups", "needs --user");
    }
    if (plan->filter_fd >= 0 && !plan->no_new_privileges) {
        return usage(failure, "--filter-fd", "needs --no-new-privileges");
    }
    if (!plan->command[0]) {
        return usage(failure, "PROGRAM", "missing");
    }
    if (plan->command[0][0] != '/') {
        return usage(failure, plan->command[0], "the program must be an absolute path");
    }
    return RESULT_OK;
}

enum result plan_parse(char **argv, struct plan *ret, struct failure *failure) {
    struct plan plan = {.network_fd = -1, .filter_fd = -1};
    char **word = argv[0] ? argv + 1 : argv;
    while (*word && strcmp(*word, "--") != 0) {
        size_t i = 0;
        while (i < sizeof OPTIONS / sizeof OPTIONS[0] && strcmp(*word, OPTIONS[i].name) != 0) {
            i++;
        }
        if (i == sizeof OPTIONS / sizeof OPTIONS[0]) {
            return usage(failure, *word, parse_result_to_string(PARSE_UNKNOWN_OPTION));
        }
        for (int k = 1; k <= OPTIONS[i].values; k++) {
            if (!word[k]) {
                return usage(failure, *word, parse_result_to_string(PARSE_MISSING_VALUE));
            }
        }
        enum parse_result result = take(&plan, OPTIONS[i].option, word + 1);
        if (result != PARSE_OK) {
            return usage(failure, OPTIONS[i].values > 0 ? word[1] : word[0], parse_result_to_string(result));
        }
        word += 1 + OPTIONS[i].values;
    }
    if (!*word) {
        return usage(failure, "--", "missing");
    }
    plan.command = word + 1;
    enum result result = check(&plan, failure);
    if (result == RESULT_OK) {
        *ret = plan;
    }
    return result;
}

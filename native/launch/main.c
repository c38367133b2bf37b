/*
 * launch: the one way in which the privileged daemon starts a child.
 *
 * It takes a closed list of operations, checks the whole command line first, applies them in one fixed order
 * whatever the order given, and execs. Any failure: one line on standard error, status 125, nothing executed.
 * After the last step only exec is left: status 127 when the program does not exist, 126 otherwise.
 */
#include "cgroup.h"
#include "confine.h"
#include "identity.h"
#include "mounts.h"
#include "plan.h"
#include "result.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum {
    STATUS_NOT_STARTED = 125,
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_NOT_FOUND = 127,
};

/* In the order of application. */
enum step {
    STEP_CGROUP,
    STEP_SESSION,
    STEP_NETWORK,
    STEP_BIND,
    STEP_DESCRIPTORS,
    STEP_LIMITS,
    STEP_BOUNDING_SET,
    STEP_USER,
    STEP_CAPABILITIES,
    STEP_LIFETIME,
    STEP_NO_NEW_PRIVILEGES,
    STEP_FILTER,
    STEP_END,
};

static enum result take_step(enum step step, const struct plan *plan, struct filter *filter, pid_t parent,
                             struct failure *failure) {
    enum result result = RESULT_OK;
    switch (step) {
    case STEP_CGROUP:
        /*
         * First, so that all that follows is accounted. Safe: a process can only move *itself*, only below
         * /sys/fs/cgroup (resolved by the kernel, on a cgroup filesystem), into a group that exists.
         */
        for (unsigned i = 0; i < plan->cgroup_count && result == RESULT_OK; i++) {
            result = cgroup_join(plan->cgroup[i], failure);
        }
        return result;
    case STEP_SESSION:
        /* Safe: only ever loses a controlling terminal and its signals. */
        if (plan->new_session && setsid() < 0) {
            return fail(failure, RESULT_SESSION, "setsid");
        }
        return RESULT_OK;
    case STEP_NETWORK:
        /*
         * Safe: the namespace is named by a descriptor that the daemon holds, never by a path, and
         * CLONE_NEWNET makes the kernel refuse one of any other kind. Needs CAP_SYS_ADMIN, so it stands
         * before the user changes.
         */
        return plan->network_fd < 0 ? RESULT_OK : confine_network(plan->network_fd, failure);
    case STEP_BIND:
        /*
         * Safe: happens in a namespace of its own whose changes do not propagate, adds read-only and nosuid
         * only, and follows no symlink. Needs CAP_SYS_ADMIN, so it stands before the user changes.
         */
        return mounts_bind(plan->bind, plan->bind_count, failure);
    case STEP_DESCRIPTORS:
        /* Always, asked for or not: a descriptor the daemon forgot is a way around everything else here. */
        return confine_descriptors(plan, failure);
    case STEP_LIMITS:
        /*
         * May raise a hard limit, which is why it stands before the user changes; safe, because limits count
         * against the program itself and the cgroup bounds what they allow.
         */
        return confine_limits(&plan->limits, failure);
    case STEP_BOUNDING_SET:
        /* Safe: only removes. Before STEP_USER, which takes away the capability it needs. */
        return plan->drop_capabilities ? identity_empty_bounding_set(failure) : RESULT_OK;
    case STEP_USER:
        /* Safe: neither id can be 0, all three of each are set, groups are replaced first, all is read back.
         */
        return plan->change_user ? identity_become(plan, failure) : RESULT_OK;
    case STEP_CAPABILITIES:
        /* Safe: only removes, and the five sets are read back as empty. */
        return plan->drop_capabilities ? identity_drop_capabilities(failure) : RESULT_OK;
    case STEP_LIFETIME:
        /* After the identity changes, which clear the setting. Safe: it can only end the program. */
        return plan->die_with_parent ? confine_lifetime(parent, failure) : RESULT_OK;
    case STEP_NO_NEW_PRIVILEGES:
        /* Safe: only removes, for good. Required by the next step without CAP_SYS_ADMIN. */
        if (plan->no_new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
            return fail(failure, RESULT_NO_NEW_PRIVILEGES, "PR_SET_NO_NEW_PRIVS");
        }
        return RESULT_OK;
    case STEP_FILTER:
        /*
         * Last: the filter is written for the program, not for the steps above. Safe: no_new_privs is on, so
         * it cannot mislead a program with more privileges than launch has left.
         */
        return filter->count > 0 ? confine_install_filter(filter, failure) : RESULT_OK;
    case STEP_END:
        break;
    }
    return RESULT_OK;
}

/* "launch: OPERATION: OBJECT: REASON" on one line whatever bytes the object holds. */
static void report(const struct failure *failure) {
    bool has_errno;
    const char *operation = result_to_string(failure->result, &has_errno);
    const char *reason = has_errno ? strerror(failure->error) : failure->detail;
    char line[1024];
    int length = snprintf(line, sizeof line - 1, "launch: %s: %s%s%s", operation, failure->object,
                          reason ? ": " : "", reason ? reason : "");
    if (length < 0) {
        return;
    }
    size_t end = (size_t)length < sizeof line - 1 ? (size_t)length : sizeof line - 2;
    for (size_t i = 0; i < end; i++) {
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f) {
            line[i] = '?';
        }
    }
    line[end] = '\n';
    /* Nobody is left to tell if this fails; the exit status says it too. */
    (void)!write(STDERR_FILENO, line, end + 1);
}

int main(int argc, char **argv) {
    (void)argc;
    pid_t parent = getppid();
    struct plan plan;
    struct filter filter = {.count = 0};
    struct failure failure;

    enum result result = plan_parse(argv, &plan, &failure);
    if (result == RESULT_USAGE) {
        report(&failure);
        (void)!write(STDERR_FILENO, PLAN_USAGE, strlen(PLAN_USAGE));
        return STATUS_NOT_STARTED;
    }
    if (result == RESULT_OK && plan.filter_fd >= 0) {
        /* Before the steps: it changes nothing, and STEP_DESCRIPTORS closes the descriptor. */
        result = confine_read_filter(plan.filter_fd, &filter, &failure);
    }
    for (enum step step = 0; step < STEP_END && result == RESULT_OK; step++) {
        result = take_step(step, &plan, &filter, parent, &failure);
    }
    if (result != RESULT_OK) {
        report(&failure);
        return STATUS_NOT_STARTED;
    }
    execv(plan.command[0], plan.command);
    fail(&failure, RESULT_EXEC, plan.command[0]);
    report(&failure);
    return failure.error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
}

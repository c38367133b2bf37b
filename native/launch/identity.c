#include "identity.h"

#include <grp.h>
#include <linux/capability.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum result identity_empty_bounding_set(struct failure *failure) {
    int present;
    for (unsigned long capability = 0; (present = prctl(PR_CAPBSET_READ, capability, 0, 0, 0)) >= 0;
         capability++) {
        if (present && prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0) {
            return fail(failure, RESULT_BOUNDING_SET, "PR_CAPBSET_DROP");
        }
    }
    return RESULT_OK;
}

enum result identity_become(const struct plan *plan, struct failure *failure) {
    if (setgroups(plan->group_count, plan->group) < 0) {
        return fail(failure, RESULT_GROUPS, "setgroups");
    }
    if (setresgid(plan->gid, plan->gid, plan->gid) < 0) {
        return fail(failure, RESULT_GID, "setresgid");
    }
    if (setresuid(plan->uid, plan->uid, plan->uid) < 0) {
        return fail(failure, RESULT_UID, "setresuid");
    }
    uid_t real, effective, saved;
    gid_t real_group, effective_group, saved_group;
    if (getresuid(&real, &effective, &saved) < 0 || real != plan->uid || effective != plan->uid ||
        saved != plan->uid || getresgid(&real_group, &effective_group, &saved_group) < 0 ||
        real_group != plan->gid || effective_group != plan->gid || saved_group != plan->gid ||
        getgroups(0, NULL) != (int)plan->group_count) {
        return fail(failure, RESULT_IDENTITY_LEFT, "--user");
    }
    return RESULT_OK;
}

enum result identity_drop_capabilities(struct failure *failure) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {0};
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0) {
        return fail(failure, RESULT_CAPABILITIES, "PR_CAP_AMBIENT_CLEAR_ALL");
    }
    if (syscall(SYS_capset, &header, sets) < 0) {
        return fail(failure, RESULT_CAPABILITIES, "capset");
    }
    if (syscall(SYS_capget, &header, sets) < 0) {
        return fail(failure, RESULT_CAPABILITIES, "capget");
    }
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (sets[i].effective || sets[i].permitted || sets[i].inheritable) {
            return fail(failure, RESULT_CAPABILITIES_LEFT, "capget");
        }
    }
    int present;
    for (unsigned long capability = 0; (present = prctl(PR_CAPBSET_READ, capability, 0, 0, 0)) >= 0;
         capability++) {
        if (present) {
            return fail(failure, RESULT_CAPABILITIES_LEFT, "bounding set");
        }
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, capability, 0, 0) != 0) {
            return fail(failure, RESULT_CAPABILITIES_LEFT, "ambient set");
        }
    }
    return RESULT_OK;
}

#include "mounts.h"

#include "cleanup.h"
#include "openat2.h"

#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>

static enum result bind_read_only(const struct bind *bind, struct failure *failure) {
    /* No symlink on either way: a link planted by somebody else never chooses what root mounts, or where. */
    cleanup_close int source = open_beneath(AT_FDCWD, bind->source, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
    if (source < 0) {
        return fail(failure, RESULT_BIND_SOURCE, bind->source);
    }
    cleanup_close int target = open_beneath(AT_FDCWD, bind->target, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
    if (target < 0) {
        return fail(failure, RESULT_BIND_TARGET, bind->target);
    }
    /* The copy becomes read-only, all of it or none, before it is attached: nobody ever sees it writable. */
    cleanup_close int tree =
        open_tree(source, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);
    if (tree < 0) {
        return fail(failure, RESULT_BIND, bind->source);
    }
    struct mount_attr attributes = {
        .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID,
        .propagation = MS_PRIVATE,
    };
    if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof attributes) < 0) {
        return fail(failure, RESULT_BIND, bind->source);
    }
    if (move_mount(tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0) {
        return fail(failure, RESULT_BIND, bind->target);
    }
    return RESULT_OK;
}

enum result mounts_bind(const struct bind *binds, unsigned count, struct failure *failure) {
    if (count == 0) {
        return RESULT_OK;
    }
    if (unshare(CLONE_NEWNS) < 0) {
        return fail(failure, RESULT_NAMESPACE, "unshare");
    }
    /* Slave, not private: nothing done here reaches the host, but an unmount there is not held up by us. */
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0) {
        return fail(failure, RESULT_NAMESPACE, "/");
    }
    for (unsigned i = 0; i < count; i++) {
        enum result result = bind_read_only(&binds[i], failure);
        if (result != RESULT_OK) {
            return result;
        }
    }
    return RESULT_OK;
}

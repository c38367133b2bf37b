/*
 * file remove: a file, a symlink, an empty directory, or with --recursive all that lies in one.
 *
 * What is to go is counted first: a tree that is larger than was asked for stays whole. What fails on the
 * way leaves the rest of it.
 */
#include "tree.h"

static long unlink_at(int directory, const char *name, int flags) {
    return sys_call(__NR_unlinkat, directory, (long)name, flags, 0, 0, 0);
}

static enum status count(struct tree *tree, int parent, const char *name, const struct statx *info,
                         bool *ret_descend) {
    (void)tree, (void)parent, (void)name, (void)info, (void)ret_descend;
    return STATUS_OK;
}

static enum status remove_file(struct tree *tree, int parent, const char *name, const struct statx *info,
                               bool *ret_descend) {
    (void)info;
    long result = *ret_descend ? 0 : unlink_at(parent, name, 0);
    return result < 0 && result != -ENOENT ? tree->failed(tree, result) : STATUS_OK;
}

static enum status remove_directory(struct tree *tree, int parent, const char *name) {
    long result = unlink_at(parent, name, AT_REMOVEDIR);
    return result < 0 && result != -ENOENT ? tree->failed(tree, result) : STATUS_OK;
}

static enum status failed(struct tree *tree, long error) {
    return error == -EMLINK ? complain(tree->request, STATUS_TOO_LARGE, "nested too deep")
                            : complain_errno(tree->request, error);
}

static enum status empty(const struct request *request, int parent, const char *name) {
    struct tree counting = {.request = request, .enter = count, .failed = failed};
    struct tree removing = {
        .request = request, .enter = remove_file, .leave = remove_directory, .failed = failed};
    struct tree *const passes[] = {&counting, &removing};
    enum status status = STATUS_OK;
    for (unsigned i = 0; i < 2 && status == STATUS_OK; i++) {
        long fd = open_strictly(parent, name, O_RDONLY | O_DIRECTORY, 0);
        if (fd < 0) {
            return complain_errno(request, fd);
        }
        status = tree_walk(passes[i], (int)fd);
        sys_close((int)fd);
    }
    return status;
}

enum status file_remove(const struct request *request) {
    struct relative at;
    int parent = -1;
    enum status status = find_parent(request, request->root, request->path, &at, &parent);
    if (status != STATUS_OK) {
        return status;
    }
    struct statx info;
    long type = type_of(parent, at.name, 0, &info);
    if (type < 0) {
        return complain_errno(request, type);
    }
    if (type == S_IFDIR && request->recursive) {
        status = empty(request, parent, at.name);
        if (status != STATUS_OK) {
            return status;
        }
    }
    long result = unlink_at(parent, at.name, type == S_IFDIR ? AT_REMOVEDIR : 0);
    return result < 0 ? complain_errno(request, result) : STATUS_OK;
}

/* file move: one name becomes another, in one step. file mkdir: one directory. */
#include "beneath.h"

enum { NOREPLACE = 1 }; /* RENAME_NOREPLACE, linux/fs.h */

enum status file_move(const struct request *request) {
    long to_root = open_root(request->to_root);
    if (to_root < 0) {
        return complain_errno(request, to_root);
    }
    struct relative from, to;
    int from_parent = -1, to_parent = -1;
    enum status status = find_parent(request, request->root, request->path, &from, &from_parent);
    if (status == STATUS_OK) {
        status = find_parent(request, (int)to_root, request->to, &to, &to_parent);
    }
    if (status != STATUS_OK) {
        return status;
    }
    long result = sys_call(__NR_renameat2, from_parent, (long)from.name, to_parent, (long)to.name,
                           request->replace ? 0 : NOREPLACE, 0);
    if (result == -EXDEV) {
        return complain(request, STATUS_OTHER_FILESYSTEM, "it would have to be copied");
    }
    return result < 0 ? complain_errno(request, result) : STATUS_OK;
}

enum status file_mkdir(const struct request *request) {
    struct relative at;
    sys_call(__NR_umask, 0, 0, 0, 0, 0, 0);
    if (request->parents && relative_split(request->path, &at) == RELATIVE_OK) {
        long made = make_directories(request->root, at.directory, false);
        if (made < 0) {
            return complain_errno(request, made);
        }
        sys_close((int)made);
    }
    int parent = -1;
    enum status status = find_parent(request, request->root, request->path, &at, &parent);
    if (status != STATUS_OK) {
        return status;
    }
    long result = sys_call(__NR_mkdirat, parent, (long)at.name, request->mode, 0, 0, 0);
    struct statx info;
    if (result == -EEXIST && request->parents && type_of(parent, at.name, 0, &info) == S_IFDIR) {
        return STATUS_OK;
    }
    return result < 0 ? complain_errno(request, result) : STATUS_OK;
}

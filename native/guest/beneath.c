#include "beneath.h"

#include "line.h"

enum { RACES_MAX = 32 }; /* openat2 answers EAGAIN when a rename crosses a ".." on its way */

static enum status status_of(long error) {
    switch (-error) {
    case ENOENT:
        return STATUS_NOT_FOUND;
    case EXDEV:
    case ELOOP:
        return STATUS_OUTSIDE;
    case ENOTDIR:
    case EISDIR:
    case ENXIO:
    case ENODEV:
        return STATUS_WRONG_TYPE;
    case EFBIG:
        return STATUS_TOO_LARGE;
    case ENOSPC:
    case EDQUOT:
        return STATUS_NO_SPACE;
    case EACCES:
    case EPERM:
    case EROFS:
        return STATUS_DENIED;
    default:
        return STATUS_OTHER;
    }
}

enum status complain(const struct request *request, enum status status, const char *reason) {
    struct line line = {.length = 0};
    line_text(&line, "file: ");
    line_text(&line, request->verb);
    line_text(&line, ": ");
    line_text(&line, reason);
    line_text(&line, ": ");
    line_quote(&line, request->path);
    line_write(&line, 2);
    return status;
}

enum status complain_errno(const struct request *request, long error) {
    return complain(request, status_of(error), errno_name((int)-error));
}

long open_beneath(int root, const char *path, uint64_t flags) {
    struct open_how how = {
        .flags = flags | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    long fd = -EAGAIN;
    for (int i = 0; i < RACES_MAX && fd == -EAGAIN; i++) {
        fd = sys_openat2(root, path, &how);
    }
    return fd;
}

long type_of(int directory, const char *name, int flags, struct statx *ret) {
    long result = sys_call(__NR_statx, directory, (long)name, flags | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS,
                           (long)ret, 0);
    return result < 0 ? result : ret->stx_mode & S_IFMT;
}

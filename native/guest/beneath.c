#include "beneath.h"

#include "line.h"

#include <string.h>

enum { RACES_MAX = 32 }; /* openat2 answers EAGAIN when a rename crosses a ".." on its way */

enum status status_of(long error) {
    switch (-error) {
    case ENOENT:
        return STATUS_NOT_FOUND;
    case EEXIST:
        return STATUS_EXISTS;
    case ENOTEMPTY:
        return STATUS_NOT_EMPTY;
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

static long open_resolved(int root, const char *path, uint64_t flags, unsigned mode, uint64_t resolve) {
    struct open_how how = {.flags = flags | O_CLOEXEC, .mode = mode, .resolve = resolve};
    long fd = -EAGAIN;
    for (int i = 0; i < RACES_MAX && fd == -EAGAIN; i++) {
        fd = sys_openat2(root, path, &how);
    }
    return fd;
}

long open_root(const char *path) {
    /* Which root is the caller's choice, but a symlink planted in its place is not. */
    return open_resolved(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
}

long open_beneath(int root, const char *path, uint64_t flags) {
    return open_resolved(root, path, flags, 0, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
}

long open_strictly(int root, const char *path, uint64_t flags, unsigned mode) {
    return open_resolved(root, path, flags, mode, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

static long open_directory(int root, const char *path, bool strict) {
    return strict ? open_strictly(root, path, O_RDONLY | O_DIRECTORY, 0)
                  : open_beneath(root, path, O_RDONLY | O_DIRECTORY);
}

long make_directories(int root, const char *path, bool strict) {
    long directory = open_directory(root, path, strict);
    if (directory != -ENOENT) {
        return directory;
    }
    /* Prefix by prefix, each resolved from the root, so that ".." keeps its meaning. */
    char prefix[RELATIVE_MAX];
    size_t length = strlen(path);
    if (length >= sizeof prefix) {
        return -ENAMETOOLONG;
    }
    memcpy(prefix, path, length + 1);
    long parent = open_directory(root, ".", strict);
    for (size_t start = 0; parent >= 0 && start < length;) {
        size_t end = start;
        while (end < length && path[end] != '/') {
            end++;
        }
        if (end > start) {
            prefix[end] = '\0';
            directory = open_directory(root, prefix, strict);
            if (directory == -ENOENT) {
                /* Does not follow: where a dangling symlink stands, the second open still finds nothing. */
                long made = sys_call(__NR_mkdirat, parent, (long)(prefix + start), 0755, 0, 0, 0);
                directory = made < 0 && made != -EEXIST ? made : open_directory(root, prefix, strict);
            }
            prefix[end] = path[end];
            sys_close((int)parent);
            parent = directory;
        }
        start = end + 1;
    }
    return parent;
}

enum status find_parent(const struct request *request, int root, const char *path, struct relative *at,
                        int *ret_directory) {
    enum relative_result split = relative_split(path, at);
    if (split != RELATIVE_OK) {
        enum status status = split == RELATIVE_ABSOLUTE       ? STATUS_OUTSIDE
                             : split == RELATIVE_NO_FILE_NAME ? STATUS_WRONG_TYPE
                                                              : STATUS_OTHER;
        return complain(request, status, relative_result_to_string(split));
    }
    long directory = open_beneath(root, at->directory, O_RDONLY | O_DIRECTORY);
    if (directory < 0) {
        return complain_errno(request, directory);
    }
    *ret_directory = (int)directory;
    return STATUS_OK;
}

long type_of(int directory, const char *name, int flags, struct statx *ret) {
    long result = sys_call(__NR_statx, directory, (long)name, flags | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS,
                           (long)ret, 0);
    return result < 0 ? result : ret->stx_mode & S_IFMT;
}

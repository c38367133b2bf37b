/*
 * file write: one regular file, replaced as a whole or not at all.
 *
 * The bytes go into a temporary name in the same directory, to disk, and then over the old name: a reader
 * sees the old content or the new one, and a failure leaves the old. Who sends the bytes is not believed:
 * they take the name only when they hash to what the command line, which was decided, says.
 */
#include "../common/relative.h"
#include "../common/sha256.h"
#include "beneath.h"
#include "line.h"

#include <linux/random.h>
#include <stdbool.h>
#include <string.h>

enum { SYMLINKS_MAX = 8 };

/* Opens a directory beneath the root and makes those of its components that are missing. -errno on failure.
 */
static long make_directories(int root, const char *path) {
    long directory = open_beneath(root, path, O_RDONLY | O_DIRECTORY);
    if (directory != -ENOENT) {
        return directory;
    }
    /* Prefix by prefix, each resolved from the root, so that ".." keeps its meaning. */
    char prefix[RELATIVE_MAX];
    size_t length = strlen(path);
    memcpy(prefix, path, length + 1);
    long parent = open_beneath(root, ".", O_RDONLY | O_DIRECTORY);
    for (size_t start = 0; parent >= 0 && start < length;) {
        size_t end = start;
        while (end < length && path[end] != '/') {
            end++;
        }
        if (end > start) {
            prefix[end] = '\0';
            directory = open_beneath(root, prefix, O_RDONLY | O_DIRECTORY);
            if (directory == -ENOENT) {
                /* Does not follow: where a dangling symlink stands, the second open still finds nothing. */
                long made = sys_call(__NR_mkdirat, parent, (long)(prefix + start), 0755, 0, 0, 0);
                directory =
                    made < 0 && made != -EEXIST ? made : open_beneath(root, prefix, O_RDONLY | O_DIRECTORY);
            }
            prefix[end] = path[end];
            sys_close((int)parent);
            parent = directory;
        }
        start = end + 1;
    }
    return parent;
}

/*
 * Finds the directory in which the file lies or will lie, and its name there. A symlink in the last place is
 * followed by hand, since the rename at the end would replace it; the kernel still resolves each step.
 */
static enum status find_target(const struct request *request, struct relative *at, int *ret_directory) {
    enum relative_result split = relative_split(request->path, at);
    for (int links = 0;; links++) {
        if (split == RELATIVE_ABSOLUTE) {
            return complain(request, STATUS_OUTSIDE, relative_result_to_string(split));
        }
        if (split != RELATIVE_OK) {
            return complain(request, split == RELATIVE_NO_FILE_NAME ? STATUS_WRONG_TYPE : STATUS_OTHER,
                            relative_result_to_string(split));
        }
        long directory = make_directories(request->root, at->directory);
        if (directory < 0) {
            return complain_errno(request, directory);
        }
        struct statx info;
        long type = type_of((int)directory, at->name, 0, &info);
        if (type == -ENOENT || type == S_IFREG) {
            *ret_directory = (int)directory;
            return STATUS_OK;
        }
        if (type < 0) {
            return complain_errno(request, type);
        }
        if (type != S_IFLNK) {
            return complain(request, STATUS_WRONG_TYPE, "not a regular file");
        }
        if (links == SYMLINKS_MAX) {
            return complain_errno(request, -ELOOP);
        }
        char target[RELATIVE_MAX];
        long length =
            sys_call(__NR_readlinkat, directory, (long)at->name, (long)target, sizeof target - 1, 0, 0);
        sys_close((int)directory);
        if (length < 0) {
            return complain_errno(request, length);
        }
        target[length] = '\0';
        split = relative_follow(at, target, at);
    }
}

/* Standard input into `fd`, to its end, and its digest: -EFBIG when there are more than `most` bytes. */
static long copy_input(int fd, uint64_t most, char ret_digest[static SHA256_DIGITS + 1]) {
    struct sha256 hash;
    sha256_start(&hash);
    char chunk[CHUNK];
    for (;;) {
        long got = sys_read(0, chunk, CHUNK);
        if (got == -EINTR) {
            continue;
        }
        if (got < 0) {
            return got;
        }
        if (got == 0) {
            sha256_end(&hash, ret_digest);
            return 0;
        }
        if ((uint64_t)got > most) {
            return -EFBIG;
        }
        most -= (uint64_t)got;
        sha256_add(&hash, chunk, (size_t)got);
        long wrote = write_all(fd, chunk, (size_t)got);
        if (wrote < 0) {
            return wrote;
        }
    }
}

/* ".opensafe-" and 16 letters, so that two writers never meet; O_EXCL holds if they do. */
static long temporary_name(char name[static 32]) {
    unsigned char random[16];
    long got = sys_call(__NR_getrandom, (long)random, sizeof random, 0, 0, 0, 0);
    if (got != (long)sizeof random) {
        return got < 0 ? got : -EIO;
    }
    memcpy(name, ".opensafe-", 10);
    for (size_t i = 0; i < sizeof random; i++) {
        name[10 + i] = (char)('a' + (random[i] & 15));
    }
    name[26] = '\0';
    return 0;
}

/* The temporary file gets its mode, goes to disk, and takes the name. */
static long put_in_place(int fd, unsigned mode, int directory, const char *temporary, const char *name) {
    long result = sys_call(__NR_fchmod, fd, mode, 0, 0, 0, 0);
    if (result >= 0) {
        result = sys_call(__NR_fsync, fd, 0, 0, 0, 0, 0);
    }
    if (result >= 0) {
        result = sys_call(__NR_renameat2, directory, (long)temporary, directory, (long)name, 0, 0);
    }
    return result;
}

static enum status fill_and_rename(const struct request *request, int directory, const char *temporary,
                                   int fd, const char *name) {
    char digest[SHA256_DIGITS + 1];
    long result = copy_input(fd, request->most, digest);
    bool decided = result >= 0 && strcmp(digest, request->sha256) == 0;
    if (decided) {
        result = put_in_place(fd, request->mode, directory, temporary, name);
    }
    if (!decided || result < 0) {
        sys_call(__NR_unlinkat, directory, (long)temporary, 0, 0, 0, 0);
        return result < 0 ? complain_errno(request, result)
                          : complain(request, STATUS_NOT_DECIDED, "content is not what was decided");
    }
    /* The name too is on disk before the writer hears "done"; filesystems in memory have nothing to sync. */
    result = sys_call(__NR_fsync, directory, 0, 0, 0, 0, 0);
    return result >= 0 || result == -EINVAL ? STATUS_OK : complain_errno(request, result);
}

enum status file_write(const struct request *request) {
    /* Only SIGKILL may leave a temporary file behind. */
    sys_set_signal_mask(~UINT64_C(0));
    sys_call(__NR_umask, 0, 0, 0, 0, 0, 0);
    struct relative at;
    int directory = -1;
    enum status status = find_target(request, &at, &directory);
    if (status != STATUS_OK) {
        return status;
    }
    char temporary[32];
    long result = temporary_name(temporary);
    if (result < 0) {
        return complain_errno(request, result);
    }
    struct open_how how = {
        .flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
        .mode = 0600,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
    };
    long fd = sys_openat2(directory, temporary, &how);
    if (fd < 0) {
        return complain_errno(request, fd);
    }
    return fill_and_rename(request, directory, temporary, (int)fd, at.name);
}

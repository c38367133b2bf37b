/*
 * file write: one regular file, replaced as a whole or not at all, or a part of one that is there.
 *
 * The bytes go into a temporary name in the same directory, to disk, and then over the old name: a reader
 * sees the old content or the new one, and a failure leaves the old. Who sends the bytes is not believed:
 * they take the name only when they hash to what the command line, which was decided, says. For the same
 * reason bytes for the inside of a file wait in a temporary one until all are there; a reader may then see
 * them half copied.
 */
#include "../common/sha256.h"
#include "beneath.h"
#include "line.h"

#include <linux/random.h>
#include <stdbool.h>
#include <string.h>

enum { SYMLINKS_MAX = 8 };

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
        long directory = make_directories(request->root, at->directory, false);
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

/* `size` bytes from the start of one file to `offset` of another. */
static long copy_bytes(int from, int to, uint64_t size, uint64_t offset) {
    char chunk[CHUNK];
    for (uint64_t done = 0; done < size;) {
        long got = sys_pread(from, chunk, size - done < CHUNK ? size - done : CHUNK, done);
        if (got <= 0) {
            return got < 0 ? got : -EIO;
        }
        for (long at = 0; at < got;) {
            long put = sys_pwrite(to, chunk + at, (size_t)(got - at), offset + done + (uint64_t)at);
            if (put < 0) {
                return put;
            }
            at += put;
        }
        done += (uint64_t)got;
    }
    return 0;
}

/* The decided bytes of `spool` go into the file of that name, which is made where there is none. */
static long put_inside(const struct request *request, int directory, const char *name, int spool) {
    struct statx info;
    long result = type_of(spool, "", AT_EMPTY_PATH, &info);
    if (result < 0) {
        return result;
    }
    uint64_t size = info.stx_size;
    if (size > (uint64_t)INT64_MAX - request->offset) {
        return -EFBIG;
    }
    long fd = open_strictly(directory, name, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY, request->mode);
    if (fd < 0) {
        return fd;
    }
    result = type_of((int)fd, "", AT_EMPTY_PATH, &info);
    if (result >= 0 && result != S_IFREG) {
        result = -ENXIO; /* it took the file's place since it was looked at */
    } else if (result >= 0) {
        result = copy_bytes(spool, (int)fd, size, request->offset);
    }
    if (result >= 0 && request->truncate) {
        result = sys_call(__NR_ftruncate, fd, (long)(request->offset + size), 0, 0, 0, 0);
    }
    return result < 0 ? result : sys_call(__NR_fsync, fd, 0, 0, 0, 0, 0);
}

static enum status fill_and_rename(const struct request *request, int directory, const char *temporary,
                                   int fd, const char *name) {
    char digest[SHA256_DIGITS + 1];
    long result = copy_input(fd, request->most, digest);
    bool decided = result >= 0 && strcmp(digest, request->sha256) == 0;
    if (decided) {
        result = request->in_place ? put_inside(request, directory, name, fd)
                                   : put_in_place(fd, request->mode, directory, temporary, name);
    }
    if (!decided || result < 0 || request->in_place) {
        sys_call(__NR_unlinkat, directory, (long)temporary, 0, 0, 0, 0);
        if (result < 0) {
            return complain_errno(request, result);
        }
        if (!decided) {
            return complain(request, STATUS_NOT_DECIDED, "content is not what was decided");
        }
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
    long fd = open_strictly(directory, temporary, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (fd < 0) {
        return complain_errno(request, fd);
    }
    return fill_and_rename(request, directory, temporary, (int)fd, at.name);
}

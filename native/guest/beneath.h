/*
 * What the verbs of `file` share: the request, the ways it may end, and the one way in which a path is
 * opened.
 */
#ifndef OPENSAFE_BENEATH_H
#define OPENSAFE_BENEATH_H

#include "sys.h"

#include <stdint.h>

/* Exit statuses; native/README.md documents them. */
enum status {
    STATUS_OK = 0,
    STATUS_USAGE = 2,
    STATUS_NOT_FOUND = 10,
    STATUS_OUTSIDE = 11,
    STATUS_WRONG_TYPE = 12,
    STATUS_TOO_LARGE = 13,
    STATUS_NO_SPACE = 14,
    STATUS_DENIED = 15,
    STATUS_OTHER = 16,
    STATUS_NOT_DECIDED = 17,
};

enum { CHUNK = 65536 }; /* bytes moved at a time */

struct request {
    const char *verb;
    const char *path;
    int root;                /* O_PATH descriptor of ROOT */
    uint64_t offset, length; /* read: bytes */
    uint64_t most;           /* write: bytes; list: entries */
    unsigned mode;           /* write: permission bits */
    const char *sha256;      /* write: what the content must hash to, in lowercase hexadecimal */
};

/* One line on standard error; returns `status`. */
enum status complain(const struct request *request, enum status status, const char *reason);

/* The same for -errno, with the status that stands for it. */
enum status complain_errno(const struct request *request, long error);

/* Opens `path` as the kernel resolves it beneath `root`. A descriptor or -errno. */
long open_beneath(int root, const char *path, uint64_t flags);

/* The file type bits (S_IFMT) of a directory's entry, which is not followed, or -errno. */
long type_of(int directory, const char *name, int flags, struct statx *ret);

enum status file_read(const struct request *request);
enum status file_write(const struct request *request);
enum status file_list(const struct request *request);

#endif

/*
 * What the verbs of `file` share: the request, the ways it may end, and the ways in which a path is opened.
 */
#ifndef OPENSAFE_BENEATH_H
#define OPENSAFE_BENEATH_H

#include "../common/relative.h"
#include "sys.h"

#include <stdbool.h>
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
    STATUS_EXISTS = 18,
    STATUS_NOT_EMPTY = 19,
    STATUS_OTHER_FILESYSTEM = 20,
    STATUS_BAD_ARCHIVE = 21,
    STATUS_PARTIAL = 22,
};

enum {
    CHUNK = 65536,   /* bytes moved at a time */
    HELD_MAX = 512,  /* patterns */
    DEPTH_MAX = 256, /* directories open at once, each with a descriptor */
};

struct request {
    const char *verb;
    const char *root_path; /* ROOT and REL as given */
    const char *path;
    int root;                /* O_PATH descriptor of ROOT */
    uint64_t offset, length; /* read, write: bytes */
    uint64_t most;           /* write: bytes; elsewhere: entries */
    uint64_t most_bytes;     /* of content in a tree */
    unsigned mode;           /* permission bits */
    const char *sha256;      /* write: what the content must hash to, in lowercase hexadecimal */
    const char *after;       /* list: the name behind which to begin, in hexadecimal */
    const char *to_root;     /* move */
    const char *to;
    bool in_place; /* write: at `offset`, into the file that is there */
    bool truncate, recursive, replace, parents;
    unsigned held_count; /* trees: what they may not carry (common/hold.h) */
    const char *held[HELD_MAX];
};

/* One line on standard error; returns `status`. */
enum status complain(const struct request *request, enum status status, const char *reason);

/* The same for -errno, with the status that stands for it. */
enum status complain_errno(const struct request *request, long error);

enum status status_of(long error);

/* ROOT as an O_PATH descriptor, or -errno. No component of it may be a symlink. */
long open_root(const char *path);

/* Opens `path` as the kernel resolves it beneath `root`. A descriptor or -errno. */
long open_beneath(int root, const char *path, uint64_t flags);

/* The same where no component may be a symlink. `mode` where `flags` have O_CREAT. */
long open_strictly(int root, const char *path, uint64_t flags, unsigned mode);

/*
 * Opens a directory beneath the root and makes those of its components that are missing. `strict`: none of
 * them may be a symlink. -errno on failure.
 */
long make_directories(int root, const char *path, bool strict);

/*
 * Opens the directory that holds the last component of `path`, whose name is left in `at`. Anything that has
 * no name of its own there ("", ".", "..", an absolute path) is complained of. Nothing is made.
 */
enum status find_parent(const struct request *request, int root, const char *path, struct relative *at,
                        int *ret_directory);

/* The file type bits (S_IFMT) of a directory's entry, which is not followed, or -errno. */
long type_of(int directory, const char *name, int flags, struct statx *ret);

enum status file_read(const struct request *request);
enum status file_write(const struct request *request);
enum status file_list(const struct request *request);
enum status file_stat(const struct request *request);
enum status file_remove(const struct request *request);
enum status file_move(const struct request *request);
enum status file_mkdir(const struct request *request);
enum status file_watch(const struct request *request);
enum status file_download(const struct request *request);
enum status file_upload(const struct request *request);

#endif

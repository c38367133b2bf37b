/*
 * tar archives, header by header: the ustar format with pax extended headers (POSIX.1-2017, pax), and of
 * GNU's the long names and binary numbers that its tar writes by default. Where the bytes come from and where
 * the members go is the caller's matter; an archive is hostile, so everything here is bounded and checked.
 */
#ifndef OPENSAFE_TAR_H
#define OPENSAFE_TAR_H

#include "relative.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TAR_BLOCK = 512,
    TAR_NAME = 100,       /* bytes of a name, or of a link's target, in a header itself */
    TAR_EXTENDED = 65536, /* the most bytes of extended header that are read for one member */
};

enum tar_result {
    TAR_OK = 0,
    TAR_END, /* a block of zeros: nothing follows */
    TAR_BAD_CHECKSUM,
    TAR_BAD_NUMBER,
    TAR_BAD_TYPE, /* unknown, sparse, or a kind that has no content and claims some */
    TAR_BAD_EXTENDED,
    TAR_TOO_LONG,
};

const char *tar_result_to_string(enum tar_result result);

enum tar_type {
    TAR_FILE,
    TAR_DIRECTORY,
    TAR_SYMLINK,
    TAR_HARD_LINK,
    TAR_SPECIAL,       /* device or FIFO */
    TAR_PAX,           /* `size` bytes of records for the next member */
    TAR_PAX_GLOBAL,    /* the same for all that follow */
    TAR_GNU_NAME,      /* `size` bytes: the next member's name */
    TAR_GNU_LINK_NAME, /* the same for its target */
};

struct tar_member {
    enum tar_type type;
    unsigned mode; /* permission bits: set-id and sticky bits are dropped */
    uint64_t size; /* bytes of content */
    int64_t mtime; /* seconds; what lies before 1970 reads as 0 */
    char path[RELATIVE_MAX];
    char target[RELATIVE_MAX];
};

/* What extended headers say of the next member in place of its own header. */
struct tar_extended {
    bool has_size, has_mtime;
    uint64_t size;
    int64_t mtime;
    char path[RELATIVE_MAX]; /* "" where they say nothing */
    char target[RELATIVE_MAX];
};

enum tar_result tar_read_header(const unsigned char block[static TAR_BLOCK], struct tar_member *ret);

/* Takes over what the records say. */
enum tar_result tar_read_pax(const char *records, size_t size, struct tar_extended *extended);

/* The content of a GNU long name: a text that may end in a NUL. */
enum tar_result tar_read_gnu_name(const char *text, size_t size, char ret[static RELATIVE_MAX]);

void tar_apply(const struct tar_extended *extended, struct tar_member *member);

/* A header. Name and target are cut to TAR_NAME bytes, size to 8 GiB: what exceeds them goes into records. */
void tar_write_header(unsigned char ret_block[static TAR_BLOCK], char type, const struct tar_member *member);

/* Appends one record to a text of `length` bytes; the new length. 0: it does not fit in `room`. */
size_t tar_write_record(char *text, size_t length, size_t room, const char *key, const char *value);

/* The largest size that a header itself can say. */
#define TAR_SIZE_MAX UINT64_C(077777777777)

#endif

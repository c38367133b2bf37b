/* Standard output in pieces of CHUNK bytes, and the records that describe files. */
#ifndef OPENSAFE_RECORDS_H
#define OPENSAFE_RECORDS_H

#include "beneath.h"

struct output {
    size_t length;
    char bytes[CHUNK];
};

/* 0 or -errno. */
long output_add(struct output *output, const void *data, size_t size);
long output_flush(struct output *output);

/* f d l p s c b, or ? */
char type_letter(unsigned mode);

/* "TYPE SIZE MODE MTIME NAME" and a NUL, such as "f 123 0644 1700000000.000000000 a b.txt". */
long record_entry(struct output *output, const struct statx *info, const char *name);

/* What a tree left out: "REASON PATH" and a NUL on standard error, the first thousand of them. */
struct omissions {
    uint64_t count;
};

void omit(struct omissions *omissions, const char *reason, const char *path);

/* STATUS_PARTIAL with a line that counts them, or STATUS_OK where there are none. */
enum status omitted(const struct omissions *omissions, const struct request *request);

#endif

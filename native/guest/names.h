/* The names in a directory, in the order in which the kernel gives them. */
#ifndef OPENSAFE_NAMES_H
#define OPENSAFE_NAMES_H

#include <stddef.h>

/* What the caller's room for names is aligned to. */
enum { NAMES_ALIGNMENT = 8 };

struct names {
    int directory;
    void *room; /* for what is read at once, aligned; a few hundred bytes at least */
    size_t size;
    long got; /* bytes in `room`; after the last name 0, or -errno */
    long at;
};

/* The next one but for . and .., which holds until the call after; NULL where there is none. */
const char *names_next(struct names *names);

#endif

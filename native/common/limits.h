/*
 * Resource limits by name, as both launch and run take them: NAME=VALUE, where NAME is getrlimit(2)'s without
 * RLIMIT_ (NOFILE, NPROC, AS, …) and VALUE a count or bytes. VALUE becomes the soft *and* the hard limit: a
 * soft limit alone is one the program may lift again.
 */
#ifndef OPENSAFE_LIMITS_H
#define OPENSAFE_LIMITS_H

#include "parse.h"

enum { LIMITS_MAX = 16 };

struct limit {
    int resource; /* RLIMIT_… */
    uint64_t value;
};

struct limits {
    struct limit item[LIMITS_MAX];
    unsigned count;
};

/* Parses one NAME=VALUE and appends it. VALUE is at most INT64_MAX, so it is never taken for "unlimited". */
enum parse_result limits_add(struct limits *limits, const char *text);

#endif

/* The one form in which a seccomp filter is handed over: `struct sock_filter` records and nothing else. */
#ifndef OPENSAFE_FILTER_H
#define OPENSAFE_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

/* The kernel's own BPF_MAXINSNS. */
enum { FILTER_MAX_INSTRUCTIONS = BPF_MAXINSNS };

struct filter {
    /* One more than is allowed, so that a reader sees that there was more. */
    struct sock_filter instruction[FILTER_MAX_INSTRUCTIONS + 1];
    unsigned short count; /* 0: no filter */
};

/* Whether so many bytes are a whole filter. Its meaning is checked by the kernel when it is installed. */
static inline bool filter_size_is_valid(size_t bytes) {
    return bytes > 0 && bytes % sizeof(struct sock_filter) == 0 &&
           bytes / sizeof(struct sock_filter) <= FILTER_MAX_INSTRUCTIONS;
}

#endif

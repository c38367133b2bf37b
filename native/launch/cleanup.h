#ifndef OPENSAFE_CLEANUP_H
#define OPENSAFE_CLEANUP_H

#include <errno.h>
#include <unistd.h>

static inline void close_descriptor(const int *fd) {
    int saved = errno;
    if (*fd >= 0) {
        close(*fd);
    }
    errno = saved;
}

/* Closes the descriptor at the end of its scope and leaves errno alone. */
#define cleanup_close __attribute__((cleanup(close_descriptor)))

#endif

/* file read: the bytes of one regular file. */
#include "beneath.h"
#include "line.h"

enum status file_read(const struct request *request) {
    /* O_NONBLOCK: opening a FIFO must not wait for a writer. */
    long fd = open_beneath(request->root, request->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        return complain_errno(request, fd);
    }
    struct statx info;
    long type = type_of((int)fd, "", AT_EMPTY_PATH, &info);
    if (type < 0) {
        return complain_errno(request, type);
    }
    if (type != S_IFREG) {
        return complain(request, STATUS_WRONG_TYPE, "not a regular file");
    }
    char chunk[CHUNK];
    uint64_t offset = request->offset;
    /* Past the greatest offset there is nothing, and pread would say EINVAL. */
    uint64_t there = (uint64_t)INT64_MAX - offset;
    uint64_t left = request->length < there ? request->length : there;
    while (left > 0) {
        long got = sys_pread((int)fd, chunk, left < CHUNK ? left : CHUNK, offset);
        if (got == -EINTR) {
            continue;
        }
        if (got < 0) {
            return complain_errno(request, got);
        }
        if (got == 0) {
            break;
        }
        long wrote = write_all(1, chunk, (size_t)got);
        if (wrote < 0) {
            return complain(request, STATUS_OTHER, "standard output");
        }
        offset += (uint64_t)got;
        left -= (uint64_t)got;
    }
    return STATUS_OK;
}

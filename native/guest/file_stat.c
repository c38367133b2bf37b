/* file stat: one record, of the name itself: a symlink is described and not followed. */
#include "records.h"

#include <string.h>

enum status file_stat(const struct request *request) {
    long fd = open_beneath(request->root, request->path, O_PATH | O_NOFOLLOW);
    if (fd < 0) {
        return complain_errno(request, fd);
    }
    struct statx info;
    long type = type_of((int)fd, "", AT_EMPTY_PATH, &info);
    if (type < 0) {
        return complain_errno(request, type);
    }
    struct output output = {.length = 0};
    long result = record_entry(&output, &info, request->path);
    if (result >= 0 && type == S_IFLNK) {
        char target[RELATIVE_MAX];
        long length = sys_call(__NR_readlinkat, fd, (long)"", (long)target, sizeof target - 1, 0, 0);
        if (length < 0) {
            return complain_errno(request, length);
        }
        target[length] = '\0';
        result = output_add(&output, target, (size_t)length + 1);
    }
    if (result >= 0) {
        result = output_flush(&output);
    }
    return result < 0 ? complain_errno(request, result) : STATUS_OK;
}

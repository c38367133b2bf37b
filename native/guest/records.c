#include "records.h"

#include "line.h"

#include <string.h>

enum { OMISSIONS_MAX = 1000, NANOSECONDS = 9 };

long output_flush(struct output *output) {
    long result = write_all(1, output->bytes, output->length);
    output->length = 0;
    return result;
}

long output_add(struct output *output, const void *data, size_t size) {
    const char *next = data;
    while (size > 0) {
        size_t part = sizeof output->bytes - output->length;
        if (part > size) {
            part = size;
        }
        memcpy(output->bytes + output->length, next, part);
        output->length += part;
        next += part;
        size -= part;
        if (output->length == sizeof output->bytes) {
            long result = output_flush(output);
            if (result < 0) {
                return result;
            }
        }
    }
    return 0;
}

char type_letter(unsigned mode) {
    switch (mode & S_IFMT) {
    case S_IFREG:
        return 'f';
    case S_IFDIR:
        return 'd';
    case S_IFLNK:
        return 'l';
    case S_IFIFO:
        return 'p';
    case S_IFSOCK:
        return 's';
    case S_IFCHR:
        return 'c';
    case S_IFBLK:
        return 'b';
    default:
        return '?';
    }
}

long record_entry(struct output *output, const struct statx *info, const char *name) {
    struct line line = {.length = 0};
    char type[] = {type_letter(info->stx_mode), ' ', '\0'};
    line_text(&line, type);
    line_number(&line, (int64_t)info->stx_size);
    line_text(&line, " ");
    line_octal(&line, info->stx_mode & 07777U, 4);
    line_text(&line, " ");
    line_number(&line, info->stx_mtime.tv_sec);
    line_text(&line, ".");
    line_digits(&line, info->stx_mtime.tv_nsec, NANOSECONDS);
    line_text(&line, " ");
    long result = output_add(output, line.text, line.length);
    return result < 0 ? result : output_add(output, name, strlen(name) + 1);
}

void omit(struct omissions *omissions, const char *reason, const char *path) {
    if (omissions->count++ < OMISSIONS_MAX) {
        /* Whoever reads them may be gone; the count at the end still says that something is missing. */
        write_all(2, reason, strlen(reason));
        write_all(2, " ", 1);
        write_all(2, path, strlen(path) + 1);
    }
}

enum status omitted(const struct omissions *omissions, const struct request *request) {
    if (omissions->count == 0) {
        return STATUS_OK;
    }
    struct line line = {.length = 0};
    line_number(&line, (int64_t)omissions->count);
    line_text(&line, " left out");
    line.text[line.length] = '\0';
    return complain(request, STATUS_PARTIAL, line.text);
}

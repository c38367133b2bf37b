/* file list: the entries of one directory, unsorted. */
#include "beneath.h"
#include "line.h"

#include <string.h>

struct linux_dirent64 {
    uint64_t d_ino;
    int64_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[];
};

static char type_letter(unsigned mode) {
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

/* "TYPE SIZE MODE NAME" and a NUL, such as "f 123 0644 a b.txt". */
static long write_entry(const struct statx *info, const char *name) {
    struct line line = {.length = 0};
    char type[] = {type_letter(info->stx_mode), ' ', '\0'};
    line_text(&line, type);
    line_number(&line, (int64_t)info->stx_size);
    line_text(&line, " ");
    line_octal(&line, info->stx_mode & 07777U, 4);
    line_text(&line, " ");
    line_text(&line, name); /* at most NAME_MAX bytes: it fits */
    line.text[line.length++] = '\0';
    return write_all(1, line.text, line.length);
}

enum status file_list(const struct request *request) {
    long fd = open_beneath(request->root, request->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (fd < 0) {
        return complain_errno(request, fd);
    }
    _Alignas(struct linux_dirent64) char entries[CHUNK / 2];
    uint64_t left = request->most;
    for (;;) {
        long got = sys_call(__NR_getdents64, fd, (long)entries, sizeof entries, 0, 0, 0);
        if (got < 0) {
            return complain_errno(request, got);
        }
        if (got == 0) {
            return STATUS_OK;
        }
        for (long at = 0; at < got;) {
            const struct linux_dirent64 *entry = (const void *)(entries + at);
            at += entry->d_reclen;
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
                continue;
            }
            if (left == 0) {
                return complain(request, STATUS_TOO_LARGE, "more entries than --max");
            }
            struct statx info;
            if (type_of((int)fd, entry->d_name, 0, &info) < 0) {
                continue; /* gone since it was listed */
            }
            left--;
            if (write_entry(&info, entry->d_name) < 0) {
                return complain(request, STATUS_OTHER, "standard output");
            }
        }
    }
}

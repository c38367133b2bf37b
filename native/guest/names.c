#include "names.h"

#include "sys.h"

#include <stdint.h>
#include <string.h>

struct linux_dirent64 {
    uint64_t d_ino;
    int64_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[];
};

_Static_assert(_Alignof(struct linux_dirent64) == NAMES_ALIGNMENT, "an entry stands where it is aligned");

const char *names_next(struct names *names) {
    for (;;) {
        if (names->at >= names->got) {
            names->got =
                sys_call(__NR_getdents64, names->directory, (long)names->room, (long)names->size, 0, 0, 0);
            names->at = 0;
            if (names->got <= 0) {
                return NULL;
            }
        }
        const struct linux_dirent64 *entry = (const void *)((const char *)names->room + names->at);
        names->at += entry->d_reclen;
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            return entry->d_name;
        }
    }
}

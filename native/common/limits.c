#include "limits.h"

#include <linux/resource.h>
#include <stddef.h>
#include <string.h>

static const struct {
    char name[12];
    int resource;
} NAMES[] = {
    {"AS", RLIMIT_AS},
    {"CORE", RLIMIT_CORE},
    {"CPU", RLIMIT_CPU},
    {"DATA", RLIMIT_DATA},
    {"FSIZE", RLIMIT_FSIZE},
    {"MEMLOCK", RLIMIT_MEMLOCK},
    {"MSGQUEUE", RLIMIT_MSGQUEUE},
    {"NOFILE", RLIMIT_NOFILE},
    {"NPROC", RLIMIT_NPROC},
    {"RTPRIO", RLIMIT_RTPRIO},
    {"SIGPENDING", RLIMIT_SIGPENDING},
    {"STACK", RLIMIT_STACK},
};

enum parse_result limits_add(struct limits *limits, const char *text) {
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        size_t length = strlen(NAMES[i].name);
        if (strncmp(text, NAMES[i].name, length) != 0 || text[length] != '=') {
            continue;
        }
        uint64_t value;
        enum parse_result result = parse_decimal(text + length + 1, INT64_MAX, &value);
        if (result != PARSE_OK) {
            return result;
        }
        for (unsigned k = 0; k < limits->count; k++) {
            if (limits->item[k].resource == NAMES[i].resource) {
                return PARSE_REPEATED;
            }
        }
        if (limits->count == LIMITS_MAX) {
            return PARSE_TOO_MANY;
        }
        limits->item[limits->count].resource = NAMES[i].resource;
        limits->item[limits->count].value = value;
        limits->count++;
        return PARSE_OK;
    }
    return PARSE_UNKNOWN_NAME;
}

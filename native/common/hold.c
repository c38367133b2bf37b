#include "hold.h"

#include "relative.h"

#include <string.h>

/* One component against one of a pattern: a star stands for any bytes, and only the last star is retried. */
static bool matches(const char *pattern, size_t patterns, const char *text, size_t size) {
    size_t at = 0, in = 0, star = patterns, resume = 0;
    while (in < size) {
        if (at < patterns && pattern[at] == '*') {
            star = at++;
            resume = in;
        } else if (at < patterns && pattern[at] == text[in]) {
            at++;
            in++;
        } else if (star < patterns) {
            at = star + 1;
            in = ++resume;
        } else {
            return false;
        }
    }
    while (at < patterns && pattern[at] == '*') {
        at++;
    }
    return at == patterns;
}

/* From here on, component by component. Neither begins with a slash. */
static bool covers_from(const char *pattern, const char *path) {
    for (;;) {
        size_t theirs = relative_component(pattern), ours = relative_component(path);
        if (ours == 0 || !matches(pattern, theirs, path, ours)) {
            return false;
        }
        pattern += theirs;
        path += ours;
        if (pattern[0] == '/' && pattern[1] == '\0') {
            return true;
        }
        if (pattern[0] == '\0' || path[0] == '\0') {
            return pattern[0] == path[0];
        }
        pattern++;
        path++;
    }
}

bool hold_covers(const char *pattern, const char *path) {
    if (strncmp(pattern, "**/", 3) != 0) {
        return pattern[0] == '/' && path[0] == '/' && covers_from(pattern + 1, path + 1);
    }
    for (const char *at = path; *at; at++) {
        if (*at == '/' && covers_from(pattern + 3, at + 1)) {
            return true;
        }
    }
    return false;
}

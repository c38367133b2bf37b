#include "relative.h"

#include <string.h>

const char *relative_result_to_string(enum relative_result result) {
    switch (result) {
    case RELATIVE_OK:
        return "ok";
    case RELATIVE_EMPTY:
        return "empty path";
    case RELATIVE_ABSOLUTE:
        return "absolute path";
    case RELATIVE_TOO_LONG:
        return "path too long";
    case RELATIVE_NO_FILE_NAME:
        return "names a directory";
    case RELATIVE_UP:
        return "path with ..";
    }
    return "unknown result";
}

enum relative_result relative_split(const char *path, struct relative *ret) {
    size_t length = strlen(path);
    if (length == 0) {
        return RELATIVE_EMPTY;
    }
    if (path[0] == '/') {
        return RELATIVE_ABSOLUTE;
    }
    if (length >= RELATIVE_MAX) {
        return RELATIVE_TOO_LONG;
    }
    size_t start = length;
    while (start > 0 && path[start - 1] != '/') {
        start--;
    }
    const char *name = path + start;
    if (strcmp(name, "") == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return RELATIVE_NO_FILE_NAME;
    }
    if (length - start >= sizeof ret->name) {
        return RELATIVE_TOO_LONG;
    }
    memcpy(ret->name, name, length - start + 1);
    if (start == 0) {
        memcpy(ret->directory, ".", 2);
    } else {
        memcpy(ret->directory, path, start - 1);
        ret->directory[start - 1] = '\0';
    }
    return RELATIVE_OK;
}

enum relative_result relative_follow(const struct relative *at, const char *target, struct relative *ret) {
    if (target[0] == '/') {
        return RELATIVE_ABSOLUTE;
    }
    char joined[RELATIVE_MAX];
    size_t directory = strlen(at->directory);
    size_t rest = strlen(target);
    if (directory + 1 + rest >= sizeof joined) {
        return RELATIVE_TOO_LONG;
    }
    memcpy(joined, at->directory, directory);
    joined[directory] = '/';
    memcpy(joined + directory + 1, target, rest + 1);
    return relative_split(joined, ret);
}

size_t relative_component(const char *text) {
    size_t length = 0;
    while (text[length] && text[length] != '/') {
        length++;
    }
    return length;
}

enum relative_result relative_clean(const char *path, char ret[static RELATIVE_MAX]) {
    if (path[0] == '/') {
        return RELATIVE_ABSOLUTE;
    }
    if (strlen(path) >= RELATIVE_MAX) {
        return RELATIVE_TOO_LONG;
    }
    size_t length = 0;
    for (size_t size; *path; path += size + (path[size] == '/')) {
        size = relative_component(path);
        if (size == 2 && path[0] == '.' && path[1] == '.') {
            return RELATIVE_UP;
        }
        if (size > 255) { /* NAME_MAX */
            return RELATIVE_TOO_LONG;
        }
        if (size == 0 || (size == 1 && path[0] == '.')) {
            continue;
        }
        if (length > 0) {
            ret[length++] = '/';
        }
        memcpy(ret + length, path, size);
        length += size;
    }
    ret[length] = '\0';
    return RELATIVE_OK;
}

bool relative_stays(const char *root, size_t depth, const char *target) {
    if (target[0] == '/') {
        size_t length = strlen(root);
        if (strncmp(target, root, length) != 0 || (target[length] != '/' && target[length] != '\0')) {
            return false;
        }
        target += length;
        depth = 0;
    }
    for (size_t size; *target; target += size + (target[size] == '/')) {
        size = relative_component(target);
        if (size == 2 && target[0] == '.' && target[1] == '.') {
            if (depth == 0) {
                return false;
            }
            depth--;
        } else if (size > 0 && !(size == 1 && target[0] == '.')) {
            depth++;
        }
    }
    return true;
}

#include "search.h"

#include <string.h>

const char *search_path(char *const *environment) {
    for (; *environment; environment++) {
        if (strncmp(*environment, "PATH=", 5) == 0) {
            return *environment + 5;
        }
    }
    return SEARCH_DEFAULT_PATH;
}

bool search_next(const char **path, const char *name, char *candidate, size_t size) {
    size_t name_length = strlen(name);
    while (**path) {
        const char *directory = *path;
        size_t length = 0;
        while (directory[length] && directory[length] != ':') {
            length++;
        }
        *path = directory + length + (directory[length] == ':');
        if (directory[0] != '/' || length + 1 + name_length >= size) {
            continue;
        }
        memcpy(candidate, directory, length);
        candidate[length] = '/';
        memcpy(candidate + length + 1, name, name_length + 1);
        return true;
    }
    return false;
}

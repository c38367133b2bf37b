#include "tree.h"

#include "../common/hold.h"
#include "line.h"
#include "names.h"
#include "records.h"

#include <string.h>

enum { NAMES_AT_ONCE = 4096 }; /* bytes, on the stack of every level */

static bool append(struct tree *tree, const char *name) {
    size_t size = strlen(name), slash = tree->length > 0;
    if (tree->length + slash + size >= sizeof tree->path) {
        return false;
    }
    tree->path[tree->length] = '/';
    tree->length += slash;
    memcpy(tree->path + tree->length, name, size + 1);
    tree->length += size;
    return true;
}

static enum status walk(struct tree *tree, int directory, unsigned depth);

static enum status descend(struct tree *tree, int parent, const char *name, unsigned depth) {
    if (depth == DEPTH_MAX) {
        return tree->failed(tree, -EMLINK);
    }
    long fd = open_strictly(parent, name, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) {
        return tree->failed(tree, fd);
    }
    enum status status = walk(tree, (int)fd, depth + 1);
    sys_close((int)fd);
    return status != STATUS_OK || !tree->leave ? status : tree->leave(tree, parent, name);
}

static enum status visit(struct tree *tree, int parent, const char *name, unsigned depth) {
    if (++tree->entries > tree->request->most) {
        return complain(tree->request, STATUS_TOO_LARGE, "more entries than --max");
    }
    if (!append(tree, name)) {
        return tree->failed(tree, -ENAMETOOLONG);
    }
    struct statx info;
    long type = type_of(parent, name, 0, &info);
    if (type < 0) {
        return type == -ENOENT ? STATUS_OK : tree->failed(tree, type); /* gone since it was read */
    }
    bool enters = type == S_IFDIR;
    enum status status = tree->enter(tree, parent, name, &info, &enters);
    return status != STATUS_OK || !enters ? status : descend(tree, parent, name, depth);
}

/* The depth is bounded, and so is the stack. */
static enum status walk(struct tree *tree, int directory, unsigned depth) {
    _Alignas(NAMES_ALIGNMENT) char room[NAMES_AT_ONCE];
    struct names names = {.directory = directory, .room = room, .size = sizeof room};
    for (const char *name; (name = names_next(&names));) {
        size_t length = tree->length;
        enum status status = visit(tree, directory, name, depth);
        tree->length = length;
        tree->path[length] = '\0';
        if (status != STATUS_OK) {
            return status;
        }
    }
    return names.got == 0 ? STATUS_OK : tree->failed(tree, names.got);
}

enum status tree_walk(struct tree *tree, int directory) {
    return walk(tree, directory, 0);
}

static size_t join(char *text, size_t length, size_t room, const char *part) {
    size_t size = strlen(part);
    if (size == 0 || strcmp(part, ".") == 0) {
        return length;
    }
    if (length + 1 + size >= room) {
        return room;
    }
    text[length] = '/';
    memcpy(text + length + 1, part, size);
    return length + 1 + size;
}

bool is_held(const struct request *request, const char *path) {
    char whole[3 * RELATIVE_MAX];
    size_t length = join(whole, 0, sizeof whole, request->root_path + 1);
    length = length < sizeof whole ? join(whole, length, sizeof whole, request->path) : length;
    length = length < sizeof whole ? join(whole, length, sizeof whole, path) : length;
    if (length >= sizeof whole) {
        return true; /* no path that long is known to be harmless */
    }
    whole[length] = '\0';
    for (unsigned i = 0; i < request->held_count; i++) {
        if (hold_covers(request->held[i], whole)) {
            return true;
        }
    }
    return false;
}

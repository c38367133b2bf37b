/* A walk over the tree below a directory, without following anything in it. */
#ifndef OPENSAFE_TREE_H
#define OPENSAFE_TREE_H

#include "beneath.h"

struct tree {
    const struct request *request;
    uint64_t entries;        /* met so far: more than `request->most` end the walk */
    char path[RELATIVE_MAX]; /* of the entry at hand, relative to where the walk began */
    size_t length;
    void *own; /* the caller's */
    /* An entry, before what lies in it. A directory is entered where *ret_descend is left true. */
    enum status (*enter)(struct tree *tree, int parent, const char *name, const struct statx *info,
                         bool *ret_descend);
    /* A directory, after what lies in it; may be NULL. */
    enum status (*leave)(struct tree *tree, int parent, const char *name);
    /* What can't be opened, read or named; STATUS_OK goes on without it. */
    enum status (*failed)(struct tree *tree, long error);
};

enum status tree_walk(struct tree *tree, int directory);

/* Whether what `path` names, relative to REL, is held back by one of the patterns. */
bool is_held(const struct request *request, const char *path);

#endif

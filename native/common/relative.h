/*
 * Relative paths, cut and joined as text only. Whether one stays beneath its root is never decided here: that
 * is openat2(2) with RESOLVE_BENEATH, in the kernel, component by component.
 */
#ifndef OPENSAFE_RELATIVE_H
#define OPENSAFE_RELATIVE_H

#include <stdbool.h>
#include <stddef.h>

enum { RELATIVE_MAX = 4096 }; /* PATH_MAX: bytes with the NUL */

struct relative {
    char directory[RELATIVE_MAX]; /* "." where the path has one component */
    char name[256];               /* NAME_MAX + 1; never "", "." or ".." */
};

enum relative_result {
    RELATIVE_OK = 0,
    RELATIVE_EMPTY,
    RELATIVE_ABSOLUTE,
    RELATIVE_TOO_LONG,
    RELATIVE_NO_FILE_NAME, /* ends in "/", "." or "..": it can only name a directory */
    RELATIVE_UP,           /* has ".." where a path may only go down */
};

const char *relative_result_to_string(enum relative_result result);

/* Bytes before the next slash or the end. */
size_t relative_component(const char *path);

/* Splits a path that is to name a file. */
enum relative_result relative_split(const char *path, struct relative *ret);

/*
 * Replaces the name of `at` by a symlink's target, which is taken relative to the directory it lies in. `ret`
 * may be `at`; it is written only on success.
 */
enum relative_result relative_follow(const struct relative *at, const char *target, struct relative *ret);

/* A path that may only go down, such as a member's in an archive, without "." and empty components; "" for
 * ".". */
enum relative_result relative_clean(const char *path, char ret[static RELATIVE_MAX]);

/*
 * Whether a symlink's target, read as text, stays beneath a root. The link lies `depth` directories below it;
 * an absolute target stays where it names the root or something in it.
 */
bool relative_stays(const char *root, size_t depth, const char *target);

#endif

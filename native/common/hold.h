/*
 * Whether a path is one of those that a tree may not carry: the path patterns of a policy's classes, with the
 * meaning that the daemon gives them (policies/data/paths.json).
 */
#ifndef OPENSAFE_HOLD_H
#define OPENSAFE_HOLD_H

#include <stdbool.h>

/*
 * Both absolute; the path is clean (no empty, "." or ".." component, no slash at its end). A pattern that
 * begins with two stars and a slash may begin at any component, any other at the first. One that ends in a
 * slash covers what lies beneath as well, any other the path alone. A star matches within one component.
 */
bool hold_covers(const char *pattern, const char *path);

#endif

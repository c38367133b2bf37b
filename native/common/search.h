/*
 * Where a command name may be found: the directories of PATH, in order (POSIX XCU 2.9.1.1).
 *
 * Two deliberate differences from a shell: an empty element does not mean the current directory, and a
 * relative element is skipped. What the gate judged must not depend on where the command happens to stand.
 */
#ifndef OPENSAFE_SEARCH_H
#define OPENSAFE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

#define SEARCH_DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

/* The value of PATH in an environment block; the default above where it is unset. */
const char *search_path(char *const *environment);

/*
 * Writes the next candidate "DIRECTORY/NAME" and advances *path past it. False when there is none left.
 * Candidates longer than `size` - 1 bytes are skipped. NAME holds no slash.
 */
bool search_next(const char **path, const char *name, char *candidate, size_t size);

#endif

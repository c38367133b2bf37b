/* Joining a cgroup that the caller made: v1 hierarchies and v2 alike. */
#ifndef OPENSAFE_CGROUP_H
#define OPENSAFE_CGROUP_H

#include "result.h"

#include <stdbool.h>

/* "/sys/fs/cgroup/" and at least one component, none of them empty, "." or "..". */
bool cgroup_path_is_valid(const char *path);

enum result cgroup_join(const char *path, struct failure *failure);

#endif

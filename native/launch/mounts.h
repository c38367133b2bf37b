/* A mount namespace of the process's own with read-only binds in it; the kernel drops both when it ends. */
#ifndef OPENSAFE_MOUNTS_H
#define OPENSAFE_MOUNTS_H

#include "plan.h"
#include "result.h"

enum result mounts_bind(const struct bind *binds, unsigned count, struct failure *failure);

#endif

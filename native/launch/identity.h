/* Who the program is: user, groups, capabilities. Each change is read back. */
#ifndef OPENSAFE_IDENTITY_H
#define OPENSAFE_IDENTITY_H

#include "plan.h"
#include "result.h"

/* Needs CAP_SETPCAP, so it comes before the user changes. */
enum result identity_empty_bounding_set(struct failure *failure);

enum result identity_become(const struct plan *plan, struct failure *failure);

/* Permitted, effective, inheritable and ambient; then checks that all five sets are empty. */
enum result identity_drop_capabilities(struct failure *failure);

#endif

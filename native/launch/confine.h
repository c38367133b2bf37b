/* What holds the program from outside: its descriptors, its limits, its parent, its system calls. */
#ifndef OPENSAFE_CONFINE_H
#define OPENSAFE_CONFINE_H

#include "../common/filter.h"
#include "plan.h"
#include "result.h"

#include <sys/types.h>

/* Closes every descriptor >= 3 that is not kept; the kept ones survive exec. */
enum result confine_descriptors(const struct plan *plan, struct failure *failure);

/* Moves the process into the network namespace that `fd` is open on. */
enum result confine_network(int fd, struct failure *failure);

enum result confine_limits(const struct limits *limits, struct failure *failure);

/* `parent` is getppid() as it was when launch began. */
enum result confine_lifetime(pid_t parent, struct failure *failure);

/* Reads to the end of `fd`. */
enum result confine_read_filter(int fd, struct filter *ret, struct failure *failure);

enum result confine_install_filter(struct filter *filter, struct failure *failure);

#endif

/* Each CHECK that fails prints its line and counts in `failures`. */
#ifndef OPENSAFE_TEST_CHECK_H
#define OPENSAFE_TEST_CHECK_H

#include <stdio.h>

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                                           \
            failures++;                                                                                      \
        }                                                                                                    \
    } while (0)

#endif

/*
 * Strict parsing of the few words that launch and the guest programs take.
 *
 * Everything in common/ is plain C11 without allocation, errno or locale: the guest links it without libc
 * (guest/start.c supplies the handful of <string.h> functions used), launch with glibc, and the unit tests
 * with sanitizers.
 */
#ifndef OPENSAFE_PARSE_H
#define OPENSAFE_PARSE_H

#include <stdint.h>

enum parse_result {
    PARSE_OK = 0,
    PARSE_NOT_A_NUMBER,
    PARSE_OUT_OF_RANGE,
    PARSE_UNKNOWN_NAME,
    PARSE_UNKNOWN_OPTION,
    PARSE_MISSING,
    PARSE_MISSING_VALUE,
    PARSE_TOO_MANY,
    PARSE_REPEATED,
    PARSE_NOT_ALLOWED,
};

const char *parse_result_to_string(enum parse_result result);

/* Decimal digits only: no sign, no space, no prefix, nothing after. Refuses values above `most`. */
enum parse_result parse_decimal(const char *text, uint64_t most, uint64_t *ret_value);

/* The same for octal, such as a file mode. */
enum parse_result parse_octal(const char *text, uint64_t most, uint64_t *ret_value);

/* A register's worth of bits: decimal, 0x hexadecimal, or a negative decimal taken as two's complement. */
enum parse_result parse_word(const char *text, uint64_t *ret_value);

/* A descriptor number other than the standard three. */
enum parse_result parse_descriptor(const char *text, int *ret_fd);

/* A user or group id other than -1, which the kernel reads as "leave unchanged". */
enum parse_result parse_any_id(const char *text, uint32_t *ret_id);

/* The same, and other than 0. */
enum parse_result parse_unprivileged_id(const char *text, uint32_t *ret_id);

#endif

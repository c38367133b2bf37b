#include "parse.h"

#include <limits.h>
#include <stdbool.h>

const char *parse_result_to_string(enum parse_result result) {
    switch (result) {
    case PARSE_OK:
        return "ok";
    case PARSE_NOT_A_NUMBER:
        return "not a number";
    case PARSE_OUT_OF_RANGE:
        return "out of range";
    case PARSE_UNKNOWN_NAME:
        return "unknown name";
    case PARSE_UNKNOWN_OPTION:
        return "unknown operation";
    case PARSE_MISSING:
        return "missing";
    case PARSE_MISSING_VALUE:
        return "needs a value";
    case PARSE_TOO_MANY:
        return "given too often";
    case PARSE_REPEATED:
        return "given twice";
    case PARSE_NOT_ALLOWED:
        return "not allowed";
    }
    return "unknown result";
}

static bool digit_value(char c, unsigned base, unsigned *ret_digit) {
    unsigned digit;
    if (c >= '0' && c <= '9') {
        digit = (unsigned)(c - '0');
    } else if (c >= 'a' && c <= 'f') {
        digit = (unsigned)(c - 'a') + 10;
    } else {
        return false;
    }
    if (digit >= base) {
        return false;
    }
    *ret_digit = digit;
    return true;
}

static enum parse_result parse_digits(const char *text, unsigned base, uint64_t most, uint64_t *ret_value) {
    if (!*text) {
        return PARSE_NOT_A_NUMBER;
    }
    uint64_t value = 0;
    bool overflow = false;
    for (; *text; text++) {
        unsigned digit;
        if (!digit_value(*text, base, &digit)) {
            return PARSE_NOT_A_NUMBER;
        }
        if (value > (UINT64_MAX - digit) / base) {
            overflow = true;
        } else {
            value = value * base + digit;
        }
    }
    if (overflow || value > most) {
        return PARSE_OUT_OF_RANGE;
    }
    *ret_value = value;
    return PARSE_OK;
}

enum parse_result parse_decimal(const char *text, uint64_t most, uint64_t *ret_value) {
    return parse_digits(text, 10, most, ret_value);
}

enum parse_result parse_octal(const char *text, uint64_t most, uint64_t *ret_value) {
    return parse_digits(text, 8, most, ret_value);
}

enum parse_result parse_word(const char *text, uint64_t *ret_value) {
    if (text[0] == '0' && text[1] == 'x') {
        return parse_digits(text + 2, 16, UINT64_MAX, ret_value);
    }
    if (text[0] != '-') {
        return parse_digits(text, 10, UINT64_MAX, ret_value);
    }
    uint64_t magnitude;
    enum parse_result result = parse_digits(text + 1, 10, (uint64_t)INT64_MAX + 1, &magnitude);
    if (result == PARSE_OK) {
        *ret_value = 0 - magnitude;
    }
    return result;
}

enum parse_result parse_descriptor(const char *text, int *ret_fd) {
    uint64_t value;
    enum parse_result result = parse_decimal(text, INT_MAX, &value);
    if (result != PARSE_OK) {
        return result;
    }
    if (value <= 2) {
        return PARSE_OUT_OF_RANGE;
    }
    *ret_fd = (int)value;
    return PARSE_OK;
}

enum parse_result parse_any_id(const char *text, uint32_t *ret_id) {
    uint64_t value;
    enum parse_result result = parse_decimal(text, UINT32_MAX - 1, &value);
    if (result == PARSE_OK) {
        *ret_id = (uint32_t)value;
    }
    return result;
}

enum parse_result parse_unprivileged_id(const char *text, uint32_t *ret_id) {
    uint32_t id;
    enum parse_result result = parse_any_id(text, &id);
    if (result != PARSE_OK) {
        return result;
    }
    if (id == 0) {
        return PARSE_NOT_ALLOWED;
    }
    *ret_id = id;
    return PARSE_OK;
}

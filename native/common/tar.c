#include "tar.h"

#include "parse.h"

#include <string.h>

/* Offsets and widths of the fields (POSIX.1-2017, pax, "ustar Interchange Format"). */
enum {
    NAME_AT = 0,
    MODE_AT = 100,
    OWNER_AT = 108,
    GROUP_AT = 116,
    SIZE_AT = 124,
    MTIME_AT = 136,
    CHECKSUM_AT = 148,
    TYPE_AT = 156,
    TARGET_AT = 157,
    MAGIC_AT = 257,
    PREFIX_AT = 345,
    ID_DIGITS = 8,
    NUMBER_DIGITS = 12,
    PREFIX = 155,
};

const char *tar_result_to_string(enum tar_result result) {
    switch (result) {
    case TAR_OK:
        return "ok";
    case TAR_END:
        return "end of archive";
    case TAR_BAD_CHECKSUM:
        return "not a tar header";
    case TAR_BAD_NUMBER:
        return "malformed number in a header";
    case TAR_BAD_TYPE:
        return "member of an unknown kind";
    case TAR_BAD_EXTENDED:
        return "malformed extended header";
    case TAR_TOO_LONG:
        return "name too long";
    }
    return "unknown result";
}

/* Octal digits between spaces and NULs, or GNU's binary form, whose first bit is set. */
static bool read_number(const unsigned char *field, size_t width, uint64_t *ret) {
    uint64_t value = 0;
    if (field[0] & 0x80) {
        /* 0xff begins a negative number, which only a time can be. */
        value = field[0] & 0x7f;
        for (size_t i = 1; i < width; i++) {
            if (value > (UINT64_MAX >> 9)) {
                return false;
            }
            value = value << 8 | field[i];
        }
        *ret = value;
        return value <= INT64_MAX;
    }
    size_t at = 0;
    while (at < width && field[at] == ' ') {
        at++;
    }
    for (; at < width && field[at] >= '0' && field[at] <= '7'; at++) {
        value = value << 3 | (uint64_t)(field[at] - '0');
    }
    for (; at < width; at++) {
        if (field[at] != ' ' && field[at] != '\0') {
            return false;
        }
    }
    *ret = value; /* at most 36 bits */
    return true;
}

/* The sum of all bytes with the field itself taken as spaces. */
static uint64_t checksum(const unsigned char block[static TAR_BLOCK]) {
    uint64_t sum = 0;
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        sum += i >= CHECKSUM_AT && i < TYPE_AT ? ' ' : block[i];
    }
    return sum;
}

static size_t copy_text(char *to, const unsigned char *from, size_t width) {
    size_t length = 0;
    while (length < width && from[length]) {
        to[length] = (char)from[length];
        length++;
    }
    to[length] = '\0';
    return length;
}

static bool type_of_flag(unsigned char flag, enum tar_type *ret) {
    static const struct {
        char flag;
        enum tar_type type;
    } TYPES[] = {
        {'0', TAR_FILE},          {'\0', TAR_FILE},   {'7', TAR_FILE},       {'1', TAR_HARD_LINK},
        {'2', TAR_SYMLINK},       {'3', TAR_SPECIAL}, {'4', TAR_SPECIAL},    {'5', TAR_DIRECTORY},
        {'6', TAR_SPECIAL},       {'x', TAR_PAX},     {'g', TAR_PAX_GLOBAL}, {'L', TAR_GNU_NAME},
        {'K', TAR_GNU_LINK_NAME},
    };
    for (size_t i = 0; i < sizeof TYPES / sizeof TYPES[0]; i++) {
        if ((unsigned char)TYPES[i].flag == flag) {
            *ret = TYPES[i].type;
            return true;
        }
    }
    return false;
}

enum tar_result tar_read_header(const unsigned char block[static TAR_BLOCK], struct tar_member *ret) {
    bool zero = true;
    for (size_t i = 0; i < TAR_BLOCK && zero; i++) {
        zero = block[i] == 0;
    }
    if (zero) {
        return TAR_END;
    }
    uint64_t sum, mode, size, mtime;
    if (!read_number(block + CHECKSUM_AT, ID_DIGITS, &sum) || sum != checksum(block)) {
        return TAR_BAD_CHECKSUM;
    }
    if (!read_number(block + MODE_AT, ID_DIGITS, &mode) ||
        !read_number(block + SIZE_AT, NUMBER_DIGITS, &size)) {
        return TAR_BAD_NUMBER;
    }
    if (!read_number(block + MTIME_AT, NUMBER_DIGITS, &mtime)) {
        mtime = 0;
    }
    enum tar_type type;
    if (!type_of_flag(block[TYPE_AT], &type)) {
        return TAR_BAD_TYPE;
    }
    if (size > 0 && (type == TAR_DIRECTORY || type == TAR_SYMLINK || type == TAR_HARD_LINK)) {
        return TAR_BAD_TYPE;
    }
    ret->type = type;
    ret->mode = (unsigned)mode & 0777U;
    ret->size = size;
    ret->mtime = (int64_t)mtime;
    size_t length = 0;
    /* GNU's magic has other content where ustar has the prefix. */
    if (memcmp(block + MAGIC_AT, "ustar", 6) == 0 && block[PREFIX_AT]) {
        length = copy_text(ret->path, block + PREFIX_AT, PREFIX);
        ret->path[length++] = '/';
    }
    copy_text(ret->path + length, block + NAME_AT, TAR_NAME);
    copy_text(ret->target, block + TARGET_AT, TAR_NAME);
    return TAR_OK;
}

static enum tar_result take_text(const char *value, size_t size, char ret[static RELATIVE_MAX]) {
    if (size == 0) {
        return TAR_BAD_EXTENDED;
    }
    if (size >= RELATIVE_MAX) {
        return TAR_TOO_LONG;
    }
    for (size_t i = 0; i < size; i++) {
        if (!value[i]) {
            return TAR_BAD_EXTENDED;
        }
    }
    memcpy(ret, value, size);
    ret[size] = '\0';
    return TAR_OK;
}

/* A decimal whose fraction, if it has one, is dropped. */
static bool take_decimal(const char *value, size_t size, uint64_t *ret) {
    char digits[24];
    size_t length = 0;
    while (length < size && value[length] != '.') {
        if (length == sizeof digits - 1 || !value[length]) {
            return false;
        }
        digits[length] = value[length];
        length++;
    }
    digits[length] = '\0';
    return parse_decimal(digits, INT64_MAX, ret) == PARSE_OK;
}

static bool is_key(const char *key, size_t size, const char *name) {
    return strlen(name) == size && memcmp(key, name, size) == 0;
}

static enum tar_result take_record(const char *key, size_t keys, const char *value, size_t values,
                                   struct tar_extended *extended) {
    uint64_t number;
    if (is_key(key, keys, "path")) {
        return take_text(value, values, extended->path);
    }
    if (is_key(key, keys, "linkpath")) {
        return take_text(value, values, extended->target);
    }
    if (is_key(key, keys, "size")) {
        extended->has_size = take_decimal(value, values, &extended->size);
        return extended->has_size ? TAR_OK : TAR_BAD_NUMBER;
    }
    if (is_key(key, keys, "mtime")) {
        extended->has_mtime = true;
        extended->mtime = take_decimal(value, values, &number) ? (int64_t)number : 0;
        return TAR_OK;
    }
    /* A sparse file's content is not what its header says. */
    return keys >= 10 && memcmp(key, "GNU.sparse", 10) == 0 ? TAR_BAD_TYPE : TAR_OK;
}

enum tar_result tar_read_pax(const char *records, size_t size, struct tar_extended *extended) {
    size_t at = 0;
    while (at < size) {
        /* "LENGTH KEY=VALUE\n", where LENGTH counts all of it. */
        size_t length = 0, digits = 0;
        while (at + digits < size && digits < 6 && records[at + digits] >= '0' &&
               records[at + digits] <= '9') {
            length = length * 10 + (size_t)(records[at + digits] - '0');
            digits++;
        }
        if (digits == 0 || at + digits >= size || records[at + digits] != ' ' || length > size - at ||
            length < digits + 3 || records[at + length - 1] != '\n') {
            return TAR_BAD_EXTENDED;
        }
        const char *key = records + at + digits + 1;
        size_t rest = length - digits - 2, keys = 0;
        while (keys < rest && key[keys] != '=') {
            keys++;
        }
        if (keys == 0 || keys == rest) {
            return TAR_BAD_EXTENDED;
        }
        enum tar_result result = take_record(key, keys, key + keys + 1, rest - keys - 1, extended);
        if (result != TAR_OK) {
            return result;
        }
        at += length;
    }
    return TAR_OK;
}

enum tar_result tar_read_gnu_name(const char *text, size_t size, char ret[static RELATIVE_MAX]) {
    while (size > 0 && !text[size - 1]) {
        size--;
    }
    return take_text(text, size, ret);
}

void tar_apply(const struct tar_extended *extended, struct tar_member *member) {
    if (extended->path[0]) {
        memcpy(member->path, extended->path, sizeof member->path);
    }
    if (extended->target[0]) {
        memcpy(member->target, extended->target, sizeof member->target);
    }
    if (extended->has_size) {
        member->size = extended->size;
    }
    if (extended->has_mtime) {
        member->mtime = extended->mtime;
    }
}

static void write_octal(unsigned char *field, size_t width, uint64_t value) {
    field[--width] = '\0';
    while (width > 0) {
        field[--width] = (unsigned char)('0' + (value & 7));
        value >>= 3;
    }
}

static void write_text(unsigned char *field, const char *text) {
    for (size_t i = 0; i < TAR_NAME && text[i]; i++) {
        field[i] = (unsigned char)text[i];
    }
}

void tar_write_header(unsigned char ret_block[static TAR_BLOCK], char type, const struct tar_member *member) {
    memset(ret_block, 0, TAR_BLOCK);
    write_text(ret_block + NAME_AT, member->path);
    write_octal(ret_block + MODE_AT, ID_DIGITS, member->mode);
    write_octal(ret_block + OWNER_AT, ID_DIGITS, 0);
    write_octal(ret_block + GROUP_AT, ID_DIGITS, 0);
    write_octal(ret_block + SIZE_AT, NUMBER_DIGITS, member->size > TAR_SIZE_MAX ? 0 : member->size);
    uint64_t mtime = member->mtime > 0 ? (uint64_t)member->mtime : 0;
    write_octal(ret_block + MTIME_AT, NUMBER_DIGITS, mtime > TAR_SIZE_MAX ? TAR_SIZE_MAX : mtime);
    ret_block[TYPE_AT] = (unsigned char)type;
    write_text(ret_block + TARGET_AT, member->target);
    memcpy(ret_block + MAGIC_AT,
           "ustar\0"
           "00",
           8);
    write_octal(ret_block + CHECKSUM_AT, ID_DIGITS - 1, checksum(ret_block));
    ret_block[CHECKSUM_AT + ID_DIGITS - 1] = ' ';
}

static size_t digits_of(size_t value) {
    size_t digits = 1;
    for (; value >= 10; value /= 10) {
        digits++;
    }
    return digits;
}

size_t tar_write_record(char *text, size_t length, size_t room, const char *key, const char *value) {
    size_t keys = strlen(key), values = strlen(value);
    size_t rest = keys + values + 3; /* space, "=", newline */
    size_t total = rest + digits_of(rest);
    total = rest + digits_of(total); /* the length counts its own digits, which may be one more then */
    if (length > room || total > room - length) {
        return 0;
    }
    char *at = text + length + digits_of(total);
    size_t left = total;
    for (char *digit = at; digit > text + length; left /= 10) {
        *--digit = (char)('0' + left % 10);
    }
    *at++ = ' ';
    memcpy(at, key, keys);
    at[keys] = '=';
    memcpy(at + keys + 1, value, values);
    at[keys + 1 + values] = '\n';
    return length + total;
}

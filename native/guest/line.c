#include "line.h"

#include "sys.h"

#include <string.h>

static void put(struct line *line, char c) {
    if (line->length < sizeof line->text - 1) {
        line->text[line->length++] = c;
    }
}

void line_text(struct line *line, const char *text) {
    for (; *text; text++) {
        put(line, *text);
    }
}

void line_quote(struct line *line, const char *text) {
    for (; *text; text++) {
        put(line, (char)((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text));
    }
}

static void put_digits(struct line *line, uint64_t value, unsigned base, unsigned width) {
    char digits[24];
    unsigned count = 0;
    do {
        digits[count++] = (char)('0' + value % base);
        value /= base;
    } while (value || count < width);
    while (count > 0) {
        put(line, digits[--count]);
    }
}

void line_number(struct line *line, int64_t value) {
    uint64_t magnitude = (uint64_t)value;
    if (value < 0) {
        put(line, '-');
        magnitude = 0 - magnitude;
    }
    put_digits(line, magnitude, 10, 1);
}

void line_digits(struct line *line, uint64_t value, unsigned width) {
    put_digits(line, value, 10, width);
}

void line_octal(struct line *line, unsigned value, unsigned width) {
    put_digits(line, value, 8, width);
}

long write_all(int fd, const void *data, size_t size) {
    const char *next = data;
    while (size > 0) {
        long wrote = sys_write(fd, next, size);
        if (wrote == -EINTR) {
            continue;
        }
        if (wrote < 0) {
            return wrote;
        }
        next += wrote;
        size -= (size_t)wrote;
    }
    return 0;
}

long line_write(struct line *line, int fd) {
    line->text[line->length++] = '\n';
    return write_all(fd, line->text, line->length);
}

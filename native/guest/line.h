/* One line of text put together in place and written at once. Overlong lines are cut. */
#ifndef OPENSAFE_LINE_H
#define OPENSAFE_LINE_H

#include <stddef.h>
#include <stdint.h>

struct line {
    size_t length;
    char text[1024];
};

void line_text(struct line *line, const char *text);

/* For text that others chose: control characters become '?', so that it stays one line. */
void line_quote(struct line *line, const char *text);

void line_number(struct line *line, int64_t value);

/* Decimal digits, at least `width` of them. */
void line_digits(struct line *line, uint64_t value, unsigned width);

/* Digits in base 8, at least `width` of them. */
void line_octal(struct line *line, unsigned value, unsigned width);

/* Writes all of it; returns 0 or -errno. */
long write_all(int fd, const void *data, size_t size);

/* Ends the line with a newline and writes it. */
long line_write(struct line *line, int fd);

/* "ENOENT", or "E?" for a number that has no name here. */
const char *errno_name(int number);

#endif

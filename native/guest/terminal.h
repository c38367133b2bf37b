/*
 * The terminal of a call: made in the guest, carried over the call's own pipes.
 *
 * `run` holds the master and passes bytes between it and the pipes it was started with as standard input and
 * output. On the control pipe it gets sizes, one record of four bytes each, and by its end the order to hang
 * up.
 */
#ifndef OPENSAFE_TERMINAL_H
#define OPENSAFE_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Little-endian. The first one must be there before `run` starts. */
struct terminal_size {
    uint16_t columns, rows;
};

_Static_assert(sizeof(struct terminal_size) == 4, "the record is 4 bytes");

struct terminal_buffer {
    size_t start, length;
    char byte[16384];
};

struct terminal {
    int master;
    int program_end; /* held open, so that the master never reads as hung up while nobody else has it open */
    int control;     /* the pipe of records */
    int children;    /* signalfd: readable when a child has ended */
    int input, output; /* the call's pipes; input is -1 after its end */
    size_t unanswered; /* bytes of input that went in since as many came out: their echo may wait in the
                          sentry */
    bool in_line;      /* the last byte of input did not end a line */
    struct terminal_buffer to_program, from_program;
};

/* Opens a terminal that belongs to the caller's *effective* user. All signals must be blocked. 0 or -errno.
 */
long terminal_open(int control, struct terminal *ret);

/* In the program's process, which leads a session: the terminal becomes its own and its three streams. */
long terminal_take(const struct terminal *terminal);

/* Carries bytes and sizes until a child has ended: true. False: the terminal has to be closed. */
bool terminal_carry(struct terminal *terminal);

/*
 * Hands on what was written before the program ended. False where that did not all get through: nobody reads
 * for five seconds, or ever will.
 */
bool terminal_drain(struct terminal *terminal);

/* Hangs up: what has the terminal in the foreground gets SIGHUP. */
void terminal_close(struct terminal *terminal);

#endif

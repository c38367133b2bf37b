/*
 * Nothing here may block but poll: a program that reads nothing must not hold its output back, nor a client
 * that reads nothing a signal character. Memory is bounded by two buffers here; what the sentry queues is
 * bounded by itself but for the echo, which grows with input while output stands still, hence `unanswered`.
 */
#include "terminal.h"

#include "sys.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <linux/poll.h>
#include <linux/signalfd.h>
#include <linux/time_types.h>

/* As struct winsize of asm/termios.h, which brings the same names as asm/termbits.h. */
struct window_size {
    uint16_t rows, columns, x_pixels, y_pixels;
};

enum {
    CHILD_SIGNAL = 17,      /* SIGCHLD */
    UNANSWERED_MAX = 65536, /* input without output; about what pipes hold */
    DRAIN_MAX = 524288,     /* more than a sentry queues, should others go on writing */
    DRAIN_SECONDS = 5,
    RECORDS = 64,
};

enum { CHILDREN, CONTROL, MASTER, INPUT, OUTPUT, POLLED };

static long device_control(int fd, unsigned long command, const void *argument) {
    return sys_call(__NR_ioctl, fd, (long)command, (long)argument, 0, 0, 0);
}

static bool is_again(long result) {
    return result == -EAGAIN || result == -EINTR;
}

/* All sizes that wait; the last one counts. -EPIPE at the end, and for bytes that are no whole records. */
static long take_sizes(struct terminal *terminal) {
    struct terminal_size size[RECORDS];
    long got = sys_read(terminal->control, size, sizeof size);
    if (got < 0) {
        return got;
    }
    if (got == 0 || got % (long)sizeof size[0] != 0) {
        return -EPIPE;
    }
    const struct terminal_size *last = &size[got / (long)sizeof size[0] - 1];
    struct window_size window = {.rows = last->rows, .columns = last->columns};
    return device_control(terminal->master, TIOCSWINSZ, &window);
}

static long set_nonblocking(int fd) {
    long flags = sys_fcntl(fd, F_GETFL, 0);
    return flags < 0 ? flags : sys_fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

long terminal_open(int control, struct terminal *ret) {
    ret->control = control;
    ret->input = 0;
    ret->output = 1;
    ret->unanswered = 0;
    ret->in_line = false;
    ret->to_program.length = ret->from_program.length = 0;
    const int locked = 0;
    const uint64_t children = signal_bit(CHILD_SIGNAL);
    long result = sys_call(__NR_openat, AT_FDCWD, (long)"/dev/ptmx",
                           O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK, 0, 0, 0);
    if (result < 0) {
        return result;
    }
    ret->master = (int)result;
    if ((result = device_control(ret->master, TIOCSPTLCK, &locked)) < 0 ||
        (result = sys_call(__NR_ioctl, ret->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC, 0, 0, 0)) <
            0) {
        return result;
    }
    ret->program_end = (int)result;
    result = sys_call(__NR_signalfd4, -1, (long)&children, sizeof children, SFD_NONBLOCK | SFD_CLOEXEC, 0, 0);
    if (result < 0) {
        return result;
    }
    ret->children = (int)result;
    if ((result = take_sizes(ret)) < 0 || (result = set_nonblocking(control)) < 0 ||
        (result = set_nonblocking(ret->input)) < 0) {
        return result;
    }
    return set_nonblocking(ret->output);
}

long terminal_take(const struct terminal *terminal) {
    long result = sys_call(__NR_ioctl, terminal->program_end, TIOCSCTTY, 0, 0, 0, 0);
    for (int stream = 0; result >= 0 && stream <= 2; stream++) {
        result = sys_call(__NR_dup3, terminal->program_end, stream, 0, 0, 0, 0);
    }
    return result;
}

/* Writes what it can. -EAGAIN where something is left. */
static long flush(struct terminal_buffer *buffer, int fd) {
    while (buffer->length > 0) {
        long written = sys_write(fd, buffer->byte + buffer->start, buffer->length);
        if (written < 0) {
            return written;
        }
        buffer->start += (size_t)written;
        buffer->length -= (size_t)written;
    }
    return 0;
}

/* The end of input, as somebody at a terminal would type it; in the midst of a line it takes two. */
static void type_end(struct terminal *terminal) {
    struct termios settings;
    struct terminal_buffer *buffer = &terminal->to_program;
    terminal->input = -1;
    if (device_control(terminal->master, TCGETS, &settings) < 0 || settings.c_cc[VEOF] == 0) {
        return;
    }
    buffer->start = 0;
    buffer->length = terminal->in_line && settings.c_lflag & ICANON ? 2 : 1;
    buffer->byte[0] = buffer->byte[1] = (char)settings.c_cc[VEOF];
}

static void take_input(struct terminal *terminal) {
    struct terminal_buffer *buffer = &terminal->to_program;
    long got = sys_read(terminal->input, buffer->byte, sizeof buffer->byte);
    if (is_again(got)) {
        return;
    }
    if (got <= 0) {
        type_end(terminal);
        return;
    }
    buffer->start = 0;
    buffer->length = (size_t)got;
    terminal->unanswered += (size_t)got;
    char last = buffer->byte[got - 1];
    terminal->in_line = last != '\n' && last != '\r';
}

/* Reads until the buffer is full or nothing is left: the sentry gives no more than a page at a time. */
static void take_output(struct terminal *terminal) {
    struct terminal_buffer *buffer = &terminal->from_program;
    buffer->start = 0;
    while (buffer->length < sizeof buffer->byte) {
        long got =
            sys_read(terminal->master, buffer->byte + buffer->length, sizeof buffer->byte - buffer->length);
        if (got <= 0) {
            break;
        }
        buffer->length += (size_t)got;
    }
}

/* False where nobody will read any more. */
static bool give_output(struct terminal *terminal) {
    size_t before = terminal->from_program.length;
    long result = flush(&terminal->from_program, terminal->output);
    size_t given = before - terminal->from_program.length;
    terminal->unanswered -= given < terminal->unanswered ? given : terminal->unanswered;
    return result == 0 || is_again(result);
}

bool terminal_carry(struct terminal *terminal) {
    for (;;) {
        bool output_waits = terminal->from_program.length > 0;
        bool input_waits = terminal->to_program.length > 0;
        bool held_back = output_waits && terminal->unanswered >= UNANSWERED_MAX;
        struct pollfd polled[POLLED] = {
            [CHILDREN] = {terminal->children, POLLIN, 0},
            [CONTROL] = {terminal->control, POLLIN, 0},
            [MASTER] = {terminal->master, (short)((output_waits ? 0 : POLLIN) | (input_waits ? POLLOUT : 0)),
                        0},
            [INPUT] = {input_waits || held_back ? -1 : terminal->input, POLLIN, 0},
            [OUTPUT] = {output_waits ? terminal->output : -1, POLLOUT, 0},
        };
        long ready = sys_call(__NR_poll, (long)polled, POLLED, -1, 0, 0, 0);
        if (is_again(ready)) {
            continue;
        }
        if (ready < 0) {
            return false;
        }
        if (polled[CONTROL].revents) {
            long result = take_sizes(terminal);
            if (result < 0 && !is_again(result)) {
                return false;
            }
        }
        if (polled[INPUT].revents) {
            take_input(terminal);
        }
        if (polled[MASTER].revents & POLLIN) {
            take_output(terminal);
        }
        long result = flush(&terminal->to_program, terminal->master);
        if ((result < 0 && !is_again(result)) || !give_output(terminal)) {
            return false;
        }
        if (polled[CHILDREN].revents) {
            struct signalfd_siginfo ended;
            sys_read(terminal->children, &ended, sizeof ended);
            return true;
        }
    }
}

bool terminal_drain(struct terminal *terminal) {
    struct __kernel_timespec left = {.tv_sec = DRAIN_SECONDS};
    for (size_t drained = 0; drained < DRAIN_MAX;) {
        if (terminal->from_program.length == 0) {
            take_output(terminal);
        }
        size_t before = terminal->from_program.length;
        if (before == 0) {
            return true;
        }
        if (!give_output(terminal)) {
            return false;
        }
        drained += before - terminal->from_program.length;
        if (terminal->from_program.length == 0) {
            continue;
        }
        struct pollfd polled[] = {
            {terminal->control, POLLIN, 0},
            {terminal->output, POLLOUT, 0},
        };
        /* Counts down over all rounds; a poll that is not interrupted leaves what is left of it. */
        long ready = sys_call(__NR_ppoll, (long)polled, 2, (long)&left, 0, sizeof(uint64_t), 0);
        if (ready == 0 || (ready < 0 && !is_again(ready))) {
            return false;
        }
        if (ready > 0 && polled[0].revents) {
            long result = take_sizes(terminal);
            if (result < 0 && !is_again(result)) {
                return false;
            }
        }
    }
    return true;
}

void terminal_close(struct terminal *terminal) {
    sys_close(terminal->program_end);
    sys_close(terminal->master);
    sys_close(terminal->children);
    sys_close(terminal->control);
    sys_close(0);
    sys_close(1);
}

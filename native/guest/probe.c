/*
 * probe: one attempt and its raw answer, for the start-up self-test. Run in the sandbox it must be refused;
 * the same binary run on the host is the control that must succeed.
 *
 *   probe syscall NUMBER [ARG]…    up to six: decimal, 0x…, or negative; prints result=… or errno=NAME/number
 *   probe read PATH                the first 64 KiB of the file, or an errno line
 *   probe connect IPV4 PORT        prints connected, or an errno line; gives up after 3 s (ETIMEDOUT)
 *
 * Exit status: 0 the attempt succeeded, 1 it was refused, 2 usage.
 */
#include "../common/parse.h"
#include "line.h"
#include "start.h"
#include "sys.h"

#include <linux/in.h>
#include <linux/poll.h>
#include <linux/socket.h>
#include <stdbool.h>
#include <string.h>

enum status {
    STATUS_SUCCEEDED = 0,
    STATUS_REFUSED = 1,
    STATUS_USAGE = 2,
};

enum {
    READ_MAX = 65536,
    CONNECT_TIMEOUT_MS = 3000,
    SOCKET_STREAM = 1,       /* SOCK_STREAM, */
    SOCKET_NONBLOCK = 04000, /* SOCK_NONBLOCK, */
    SOCKET_LEVEL = 1,        /* SOL_SOCKET and */
    SOCKET_ERROR = 4,        /* SO_ERROR as linux/net.h's users know them on x86_64 */
    INET = 2,                /* AF_INET */
};

static enum status answer(long result) {
    struct line line = {.length = 0};
    bool is_error = result < 0 && result >= -4095;
    line_text(&line, is_error ? "errno=" : "result=");
    if (is_error) {
        line_text(&line, errno_name((int)-result));
        line_text(&line, "/");
    }
    line_number(&line, is_error ? -result : result);
    line_write(&line, 1);
    return is_error ? STATUS_REFUSED : STATUS_SUCCEEDED;
}

static enum status usage(void) {
    static const char TEXT[] = "usage: probe syscall NUMBER [ARG]… | read PATH | connect IPV4 PORT\n";
    write_all(2, TEXT, sizeof TEXT - 1);
    return STATUS_USAGE;
}

static enum status probe_syscall(char **words) {
    uint64_t value[7] = {0};
    for (size_t i = 0; words[i]; i++) {
        if (i == 7 || parse_word(words[i], &value[i]) != PARSE_OK) {
            return usage();
        }
    }
    return answer(sys_call((long)value[0], (long)value[1], (long)value[2], (long)value[3], (long)value[4],
                           (long)value[5], (long)value[6]));
}

static enum status probe_read(const char *path) {
    struct open_how how = {.flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC};
    long fd = sys_openat2(AT_FDCWD, path, &how);
    if (fd < 0) {
        return answer(fd);
    }
    char bytes[READ_MAX];
    long got = sys_read((int)fd, bytes, sizeof bytes);
    if (got < 0) {
        return answer(got);
    }
    return write_all(1, bytes, (size_t)got) < 0 ? STATUS_REFUSED : STATUS_SUCCEEDED;
}

/* Dotted quad and nothing else, in network order. */
static bool parse_ipv4(const char *text, uint32_t *ret_address) {
    unsigned char octet[4];
    for (int i = 0; i < 4; i++) {
        unsigned value = 0;
        int digits = 0;
        for (; *text >= '0' && *text <= '9' && digits < 3; text++, digits++) {
            value = value * 10 + (unsigned)(*text - '0');
        }
        if (digits == 0 || value > 255 || *text++ != (i < 3 ? '.' : '\0')) {
            return false;
        }
        octet[i] = (unsigned char)value;
    }
    memcpy(ret_address, octet, sizeof octet);
    return true;
}

static long connect_within(int fd, const struct sockaddr_in *address, int timeout_ms) {
    long result = sys_call(__NR_connect, fd, (long)address, sizeof *address, 0, 0, 0);
    if (result != -EINPROGRESS) {
        return result;
    }
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    result = sys_call(__NR_poll, (long)&wait, 1, timeout_ms, 0, 0, 0);
    if (result <= 0) {
        return result < 0 ? result : -ETIMEDOUT;
    }
    int error = 0;
    int size = sizeof error;
    result = sys_call(__NR_getsockopt, fd, SOCKET_LEVEL, SOCKET_ERROR, (long)&error, (long)&size, 0);
    return result < 0 ? result : -error;
}

static enum status probe_connect(const char *host, const char *port) {
    struct sockaddr_in address = {.sin_family = INET};
    uint64_t number;
    if (!parse_ipv4(host, &address.sin_addr.s_addr) || parse_decimal(port, 65535, &number) != PARSE_OK) {
        return usage();
    }
    address.sin_port = __builtin_bswap16((uint16_t)number);
    long fd = sys_call(__NR_socket, INET, SOCKET_STREAM | SOCKET_NONBLOCK, 0, 0, 0, 0);
    if (fd < 0) {
        return answer(fd);
    }
    long result = connect_within((int)fd, &address, CONNECT_TIMEOUT_MS);
    if (result < 0) {
        return answer(result);
    }
    struct line line = {.length = 0};
    line_text(&line, "connected");
    line_write(&line, 1);
    return STATUS_SUCCEEDED;
}

int guest_main(char **argv, char **environment) {
    (void)environment;
    if (!argv[0] || !argv[1] || !argv[2]) {
        return (int)usage();
    }
    if (strcmp(argv[1], "syscall") == 0) {
        return (int)probe_syscall(argv + 2);
    }
    if (strcmp(argv[1], "read") == 0 && !argv[3]) {
        return (int)probe_read(argv[2]);
    }
    if (strcmp(argv[1], "connect") == 0 && argv[3] && !argv[4]) {
        return (int)probe_connect(argv[2], argv[3]);
    }
    return (int)usage();
}

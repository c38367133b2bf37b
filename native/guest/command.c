#include "command.h"

#include "sys.h"

#include <linux/socket.h>
#include <linux/uio.h>
#include <string.h>

/* What glibc and the kernel have in common, and uapi headers leave out (bits/socket.h). */
enum { SOCKET_LEVEL = 1, RIGHTS = 1, TRUNCATED = 0x20, RIGHTS_TRUNCATED = 8 };

struct message {
    void *name;
    int name_size;
    struct iovec *part;
    size_t parts;
    void *control;
    size_t control_size;
    unsigned flags;
};

struct rights {
    size_t size;
    int level, type;
    int fd[COMMAND_STREAMS];
};

/* Points at `count` strings from *at on, which must end before `end`. */
static char **point(char **pointer, uint32_t count, char **at, const char *end) {
    for (uint32_t i = 0; i < count; i++) {
        pointer[i] = *at;
        while (*at < end && **at) {
            ++*at;
        }
        if (*at >= end) {
            return NULL;
        }
        ++*at;
    }
    pointer[count] = NULL;
    return pointer;
}

static long unpack(struct command *command, size_t size) {
    uint32_t count[2];
    if (size < sizeof count) {
        return -EINVAL;
    }
    memcpy(count, command->byte, sizeof count);
    if (count[0] > COMMAND_WORDS || count[1] > COMMAND_WORDS - count[0]) {
        return -EINVAL;
    }
    char *at = command->byte + sizeof count;
    const char *end = command->byte + size;
    command->words = point(command->pointer, count[0], &at, end);
    command->variables = point(command->pointer + count[0] + 1, count[1], &at, end);
    return command->words && command->variables && at == end ? 1 : -EINVAL;
}

long command_receive(int socket, struct command *ret) {
    struct iovec part = {ret->byte, sizeof ret->byte};
    struct rights rights = {0};
    struct message message = {.part = &part, .parts = 1, .control = &rights, .control_size = sizeof rights};
    long got;
    do {
        got = sys_call(__NR_recvmsg, socket, (long)&message, 0, 0, 0, 0);
    } while (got == -EINTR);
    if (got <= 0) {
        return got;
    }
    if (message.flags & (TRUNCATED | RIGHTS_TRUNCATED) || rights.level != SOCKET_LEVEL ||
        rights.type != RIGHTS || rights.size != offsetof(struct rights, fd) + sizeof rights.fd) {
        return -EINVAL;
    }
    memcpy(ret->stream, rights.fd, sizeof ret->stream);
    return unpack(ret, (size_t)got);
}

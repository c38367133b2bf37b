/*
 * A command that comes later: to a runner that was started ahead of it, as one packet on a socket of the
 * warden's, with the three streams as descriptors.
 *
 *   offset 0  u32 words      of the options and the command, as on the command line from --cwd on
 *          4  u32 variables  of the environment
 *          8  the words, then the variables, each with its NUL
 */
#ifndef OPENSAFE_COMMAND_H
#define OPENSAFE_COMMAND_H

#include <stddef.h>
#include <stdint.h>

enum { COMMAND_BYTES = 65536, COMMAND_WORDS = 2048, COMMAND_STREAMS = 3 };

struct command {
    char **words, **variables; /* each ends in NULL */
    int stream[COMMAND_STREAMS];
    /* 80 KiB, deliberately not zeroed: an untouched page costs nothing. */
    char *pointer[COMMAND_WORDS + 2];
    _Alignas(8) char byte[COMMAND_BYTES];
};

/* Sleeps until the packet is there. 1; 0 when there will be none; -errno, -EINVAL for what is no such packet.
 */
long command_receive(int socket, struct command *ret);

#endif

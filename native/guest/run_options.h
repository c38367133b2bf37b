/* The command line of `run`. */
#ifndef OPENSAFE_RUN_OPTIONS_H
#define OPENSAFE_RUN_OPTIONS_H

#include "../common/limits.h"
#include "../common/parse.h"

#include <stdint.h>

enum { RUN_GROUPS_MAX = 32 };

struct run_options {
    uint32_t uid, gid; /* of the program; 0 is a user like others, for no program has a capability */
    uint32_t group[RUN_GROUPS_MAX]; /* its supplementary ones */
    unsigned group_count;
    uint32_t runner_uid; /* of `run` itself, and its gid; differs from uid */
    const char *cwd;     /* absolute */
    int filter_fd;       /* -1: none */
    int terminal_fd;     /* the control pipe of a terminal; -1: none */
    int command_fd;      /* the socket that the rest comes from (command.h); -1: it is all here */
    int report_fd;
    struct limits limits;
    char **command; /* argv of the program, NULL-terminated, not empty */
};

/* argv[0] is skipped. On failure `ret` is untouched and *ret_word names the word at fault. */
enum parse_result run_options_parse(char **argv, struct run_options *ret, const char **ret_word);

/* What comes later: --cwd, --rlimit and the command, as words of their own. */
enum parse_result run_options_complete(char **words, struct run_options *options, const char **ret_word);

/* The report descriptor of a command line that may be wrong otherwise; -1 where it names none. */
int run_options_report_fd(char **argv);

#endif

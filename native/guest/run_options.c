#include "run_options.h"

#include <stddef.h>
#include <string.h>

enum seen {
    SEEN_UID = 1,
    SEEN_GID = 2,
    SEEN_RUNNER_UID = 4,
    SEEN_CWD = 8,
    SEEN_REPORT_FD = 16,
    SEEN_REQUIRED = 31,
    SEEN_FILTER_FD = 32,
    SEEN_TERMINAL_FD = 64,
};

/* Which option the word is; 0 for --rlimit, which may be repeated; -1 for none. */
static int option_of(const char *word) {
    static const struct {
        char name[16];
        int seen;
    } OPTIONS[] = {
        {"--cwd", SEEN_CWD},
        {"--filter-fd", SEEN_FILTER_FD},
        {"--gid", SEEN_GID},
        {"--report-fd", SEEN_REPORT_FD},
        {"--rlimit", 0},
        {"--runner-uid", SEEN_RUNNER_UID},
        {"--terminal-fd", SEEN_TERMINAL_FD},
        {"--uid", SEEN_UID},
    };
    for (size_t i = 0; i < sizeof OPTIONS / sizeof OPTIONS[0]; i++) {
        if (strcmp(word, OPTIONS[i].name) == 0) {
            return OPTIONS[i].seen;
        }
    }
    return -1;
}

static enum parse_result take(struct run_options *options, int option, const char *value) {
    switch (option) {
    case SEEN_UID:
        return parse_unprivileged_id(value, &options->uid);
    case SEEN_GID:
        return parse_unprivileged_id(value, &options->gid);
    case SEEN_RUNNER_UID:
        return parse_unprivileged_id(value, &options->runner_uid);
    case SEEN_CWD:
        options->cwd = value;
        return value[0] == '/' ? PARSE_OK : PARSE_NOT_ALLOWED;
    case SEEN_REPORT_FD:
        return parse_descriptor(value, &options->report_fd);
    case SEEN_FILTER_FD:
        return parse_descriptor(value, &options->filter_fd);
    case SEEN_TERMINAL_FD:
        return parse_descriptor(value, &options->terminal_fd);
    default:
        return limits_add(&options->limits, value);
    }
}

enum parse_result run_options_parse(char **argv, struct run_options *ret, const char **ret_word) {
    struct run_options options = {.filter_fd = -1, .terminal_fd = -1};
    int seen = 0;
    char **word = argv[0] ? argv + 1 : argv;
    for (; *word && strcmp(*word, "--") != 0; word += 2) {
        *ret_word = *word;
        int option = option_of(*word);
        if (option < 0) {
            return PARSE_UNKNOWN_OPTION;
        }
        if (seen & option) {
            return PARSE_REPEATED;
        }
        if (!word[1]) {
            return PARSE_MISSING_VALUE;
        }
        seen |= option;
        enum parse_result result = take(&options, option, word[1]);
        if (result != PARSE_OK) {
            *ret_word = word[1];
            return result;
        }
    }
    *ret_word = "--";
    if (!*word || !word[1] || (seen & SEEN_REQUIRED) != SEEN_REQUIRED) {
        return PARSE_MISSING;
    }
    /* The command must never be able to signal its runner. */
    *ret_word = "--runner-uid";
    if (options.runner_uid == options.uid) {
        return PARSE_NOT_ALLOWED;
    }
    *ret_word = "--filter-fd";
    if (options.filter_fd == options.report_fd) {
        return PARSE_NOT_ALLOWED;
    }
    *ret_word = "--terminal-fd";
    if (options.terminal_fd == options.report_fd ||
        (options.terminal_fd >= 0 && options.terminal_fd == options.filter_fd)) {
        return PARSE_NOT_ALLOWED;
    }
    options.command = word + 1;
    *ret = options;
    return PARSE_OK;
}

int run_options_report_fd(char **argv) {
    int fd = -1;
    for (char **word = argv; *word && strcmp(*word, "--") != 0; word++) {
        if (strcmp(*word, "--report-fd") == 0 && word[1] && parse_descriptor(word[1], &fd) == PARSE_OK) {
            return fd;
        }
    }
    return -1;
}

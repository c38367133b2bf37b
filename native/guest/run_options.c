#include "run_options.h"

#include <stdbool.h>
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
    SEEN_COMMAND_FD = 128,
    SEEN_GROUPS = 256,
    SEEN_LATER = SEEN_CWD, /* and --rlimit and the command */
};

/* Which option the word is; 0 for --rlimit, which may be repeated; -1 for none. */
static int option_of(const char *word) {
    static const struct {
        char name[16];
        int seen;
    } OPTIONS[] = {
        {"--command-fd", SEEN_COMMAND_FD},
        {"--cwd", SEEN_CWD},
        {"--filter-fd", SEEN_FILTER_FD},
        {"--gid", SEEN_GID},
        {"--groups", SEEN_GROUPS},
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

/* Ids with commas between them, copied out one by one before they are parsed. */
static enum parse_result take_groups(struct run_options *options, const char *text) {
    for (;;) {
        char digits[16];
        size_t length = 0;
        while (text[length] && text[length] != ',') {
            if (length == sizeof digits - 1) {
                return PARSE_OUT_OF_RANGE;
            }
            digits[length] = text[length];
            length++;
        }
        digits[length] = '\0';
        if (options->group_count == RUN_GROUPS_MAX) {
            return PARSE_TOO_MANY;
        }
        enum parse_result result = parse_any_id(digits, &options->group[options->group_count]);
        if (result != PARSE_OK) {
            return result;
        }
        options->group_count++;
        if (!text[length]) {
            return PARSE_OK;
        }
        text += length + 1;
    }
}

static enum parse_result take(struct run_options *options, int option, const char *value) {
    switch (option) {
    case SEEN_UID:
        return parse_any_id(value, &options->uid);
    case SEEN_GID:
        return parse_any_id(value, &options->gid);
    case SEEN_GROUPS:
        return take_groups(options, value);
    case SEEN_RUNNER_UID:
        return parse_unprivileged_id(value, &options->runner_uid);
    case SEEN_CWD:
        options->cwd = value;
        return value[0] == '/' ? PARSE_OK : PARSE_NOT_ALLOWED;
    case SEEN_REPORT_FD:
        return parse_descriptor(value, &options->report_fd);
    case SEEN_FILTER_FD:
        return parse_descriptor(value, &options->filter_fd);
    case SEEN_COMMAND_FD:
        return parse_descriptor(value, &options->command_fd);
    case SEEN_TERMINAL_FD:
        return parse_descriptor(value, &options->terminal_fd);
    default:
        return limits_add(&options->limits, value);
    }
}

/* Up to "--" or the end; *ret_end is there. */
static enum parse_result take_all(char **word, struct run_options *options, int *seen, const char **ret_word,
                                  char ***ret_end) {
    for (; *word && strcmp(*word, "--") != 0; word += 2) {
        *ret_word = *word;
        int option = option_of(*word);
        if (option < 0) {
            return PARSE_UNKNOWN_OPTION;
        }
        if (*seen & option) {
            return PARSE_REPEATED;
        }
        if (!word[1]) {
            return PARSE_MISSING_VALUE;
        }
        *seen |= option;
        enum parse_result result = take(options, option, word[1]);
        if (result != PARSE_OK) {
            *ret_word = word[1];
            return result;
        }
    }
    *ret_end = word;
    return PARSE_OK;
}

static bool distinct(const struct run_options *options) {
    const int fd[] = {options->report_fd, options->filter_fd, options->terminal_fd, options->command_fd};
    for (size_t i = 0; i < sizeof fd / sizeof fd[0]; i++) {
        for (size_t j = 0; j < i; j++) {
            if (fd[i] >= 0 && fd[i] == fd[j]) {
                return false;
            }
        }
    }
    return true;
}

enum parse_result run_options_parse(char **argv, struct run_options *ret, const char **ret_word) {
    struct run_options options = {.filter_fd = -1, .terminal_fd = -1, .command_fd = -1};
    int seen = 0;
    char **end;
    enum parse_result result = take_all(argv[0] ? argv + 1 : argv, &options, &seen, ret_word, &end);
    if (result != PARSE_OK) {
        return result;
    }
    bool later = options.command_fd >= 0;
    int required = later ? SEEN_REQUIRED & ~SEEN_LATER : SEEN_REQUIRED;
    *ret_word = "--";
    if ((seen & required) != required || (!later && (!*end || !end[1]))) {
        return PARSE_MISSING;
    }
    if (later && (*end || options.limits.count > 0 || seen & (SEEN_LATER | SEEN_TERMINAL_FD | SEEN_GROUPS))) {
        return PARSE_NOT_ALLOWED;
    }
    /* The command must never be able to signal its runner. */
    *ret_word = "--runner-uid";
    if (options.runner_uid == options.uid) {
        return PARSE_NOT_ALLOWED;
    }
    *ret_word = "--report-fd";
    if (!distinct(&options)) {
        return PARSE_NOT_ALLOWED;
    }
    options.command = end + 1;
    *ret = options;
    return PARSE_OK;
}

enum parse_result run_options_complete(char **words, struct run_options *options, const char **ret_word) {
    int seen = ~SEEN_LATER; /* all others were settled before */
    char **end;
    enum parse_result result = take_all(words, options, &seen, ret_word, &end);
    if (result != PARSE_OK) {
        return result;
    }
    *ret_word = "--";
    if (!(seen & SEEN_CWD) || !*end || !end[1]) {
        return PARSE_MISSING;
    }
    options->command = end + 1;
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

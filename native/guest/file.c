/*
 * file: the file API's hand inside the sandbox.
 *
 *   file VERB ROOT REL [OPTION…]          the verbs and their options are in VERBS below
 *
 * Every path is resolved by the kernel beneath ROOT (openat2, RESOLVE_BENEATH): "..", symlinks and absolute
 * targets may move within it and never out of it, also while somebody swaps directories for symlinks. Text is
 * never compared. Only regular files are read or replaced. Exit status and formats: native/README.md.
 */
#include "../common/parse.h"
#include "../common/sha256.h"
#include "beneath.h"
#include "line.h"
#include "start.h"

#include <string.h>

enum { ENTRIES_DEFAULT = 10000 };

/* Letters of the options that a verb takes, and of those that it can't do without. */
static const struct verb {
    char name[9];
    char options[8];
    char required[4];
    enum status (*run)(const struct request *request);
} VERBS[] = {
    {"read", "ol", "", file_read},          {"write", "kmsot", "kms", file_write},
    {"list", "ma", "", file_list},          {"stat", "", "", file_stat},
    {"remove", "rm", "", file_remove},      {"move", "TDf", "TD", file_move},
    {"mkdir", "kp", "k", file_mkdir},       {"watch", "rm", "", file_watch},
    {"download", "mbh", "", file_download}, {"upload", "mbh", "", file_upload},
};

/* The letters by which VERBS names them. */
static const struct option {
    char name[12];
    char letter;
    bool alone; /* takes no value */
} OPTIONS[] = {
    {"--offset", 'o', false},    {"--length", 'l', false},   {"--mode", 'k', false},
    {"--max", 'm', false},       {"--sha256", 's', false},   {"--truncate", 't', true},
    {"--after", 'a', false},     {"--recursive", 'r', true}, {"--to-root", 'T', false},
    {"--to", 'D', false},        {"--replace", 'f', true},   {"--parents", 'p', true},
    {"--max-bytes", 'b', false}, {"--hold", 'h', false},
};

static enum status usage(void) {
    static const char TEXT[] = "usage: file read ROOT REL [--offset N] [--length N]\n"
                               "       file write ROOT REL --mode OCTAL --max BYTES --sha256 HEX "
                               "[--offset N] [--truncate]\n"
                               "       file list ROOT REL [--max N] [--after HEX]\n"
                               "       file stat ROOT REL\n"
                               "       file remove ROOT REL [--recursive] [--max N]\n"
                               "       file move ROOT REL --to-root ROOT --to REL [--replace]\n"
                               "       file mkdir ROOT REL --mode OCTAL [--parents]\n"
                               "       file watch ROOT REL [--recursive] [--max N]\n"
                               "       file download ROOT REL [--max N] [--max-bytes N] [--hold PATTERN]...\n"
                               "       file upload ROOT REL [--max N] [--max-bytes N] [--hold PATTERN]...\n";
    write_all(2, TEXT, sizeof TEXT - 1);
    return STATUS_USAGE;
}

static size_t hexadecimal_digits(const char *text) {
    size_t length = 0;
    while (text[length] && strchr("0123456789abcdef", text[length])) {
        length++;
    }
    return text[length] ? 0 : length;
}

static bool take_number(const char *text, uint64_t *ret) {
    return parse_decimal(text, INT64_MAX, ret) == PARSE_OK;
}

static bool take_mode(const char *text, unsigned *ret) {
    uint64_t number;
    bool valid = parse_octal(text, 0777, &number) == PARSE_OK;
    *ret = valid ? (unsigned)number : 0;
    return valid;
}

static bool take_value(struct request *request, char letter, const char *value) {
    switch (letter) {
    case 'o':
        request->in_place = true;
        return take_number(value, &request->offset);
    case 'l':
        return take_number(value, &request->length);
    case 'k':
        return take_mode(value, &request->mode);
    case 'm':
        return take_number(value, &request->most);
    case 'b':
        return take_number(value, &request->most_bytes);
    case 's':
        request->sha256 = value;
        return hexadecimal_digits(value) == SHA256_DIGITS;
    case 'a':
        request->after = value;
        return strlen(value) <= 510 && strlen(value) % 2 == 0 && hexadecimal_digits(value) == strlen(value);
    case 'T':
        request->to_root = value;
        return value[0] == '/';
    case 'D':
        request->to = value;
        return true;
    case 'h':
        if (request->held_count == HELD_MAX) {
            return false;
        }
        request->held[request->held_count++] = value;
        return true;
    default:
        return false;
    }
}

static void take_flag(struct request *request, char letter) {
    request->truncate = request->truncate || letter == 't';
    request->recursive = request->recursive || letter == 'r';
    request->replace = request->replace || letter == 'f';
    request->parents = request->parents || letter == 'p';
}

static const struct option *find_option(const struct verb *verb, const char *name) {
    for (size_t i = 0; i < sizeof OPTIONS / sizeof OPTIONS[0]; i++) {
        if (strcmp(OPTIONS[i].name, name) == 0) {
            return strchr(verb->options, OPTIONS[i].letter) ? &OPTIONS[i] : NULL;
        }
    }
    return NULL;
}

static bool take_options(struct request *request, const struct verb *verb, char **words) {
    char missing[sizeof verb->required];
    memcpy(missing, verb->required, sizeof missing);
    for (; *words; words++) {
        const struct option *option = find_option(verb, words[0]);
        if (!option) {
            return false;
        }
        if (option->alone) {
            take_flag(request, option->letter);
            continue;
        }
        words++;
        if (!*words || !take_value(request, option->letter, *words)) {
            return false;
        }
        char *needed = strchr(missing, option->letter);
        if (needed && *needed) {
            *needed = ' ';
        }
    }
    for (const char *letter = missing; *letter; letter++) {
        if (*letter != ' ') {
            return false;
        }
    }
    return !request->truncate || request->in_place;
}

int guest_main(char **argv, char **environment) {
    (void)environment;
    if (!argv[0] || !argv[1] || !argv[2] || !argv[3] || argv[2][0] != '/') {
        return usage();
    }
    const struct verb *verb = VERBS;
    while (verb < VERBS + sizeof VERBS / sizeof VERBS[0] && strcmp(argv[1], verb->name) != 0) {
        verb++;
    }
    struct request request = {
        .verb = argv[1],
        .root_path = argv[2],
        .path = argv[3],
        .root = -1,
        .length = INT64_MAX,
        .most = ENTRIES_DEFAULT,
        .most_bytes = INT64_MAX,
    };
    if (verb == VERBS + sizeof VERBS / sizeof VERBS[0] || !take_options(&request, verb, argv + 4)) {
        return usage();
    }
    long root = open_root(request.root_path);
    if (root < 0) {
        request.path = request.root_path;
        return (int)complain_errno(&request, root);
    }
    request.root = (int)root;
    return (int)verb->run(&request);
}

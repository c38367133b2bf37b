/*
 * file: the file API's hand inside the sandbox.
 *
 *   file read ROOT REL [--offset N] [--length N]     bytes to standard output
 *   file write ROOT REL --mode OCTAL --max BYTES --sha256 HEX
 *                                                    standard input, exactly what was decided, or nothing
 *   file list ROOT REL [--max N]                     records to standard output
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

#include <stdbool.h>
#include <string.h>

enum { ENTRIES_DEFAULT = 10000 };

static enum status usage(void) {
    static const char TEXT[] = "usage: file read ROOT REL [--offset N] [--length N]\n"
                               "       file write ROOT REL --mode OCTAL --max BYTES --sha256 HEX\n"
                               "       file list ROOT REL [--max N]\n";
    write_all(2, TEXT, sizeof TEXT - 1);
    return STATUS_USAGE;
}

static bool is_digest(const char *text) {
    size_t length = 0;
    while (text[length] && strchr("0123456789abcdef", text[length])) {
        length++;
    }
    return length == SHA256_DIGITS && !text[length];
}

/* One "--NAME VALUE" for this verb. */
static bool take_option(struct request *request, char verb, const char *name, const char *value) {
    uint64_t number;
    if (verb == 'w' && strcmp(name, "--mode") == 0) {
        bool valid = parse_octal(value, 0777, &number) == PARSE_OK;
        request->mode = valid ? (unsigned)number : 0;
        return valid;
    }
    if (verb == 'w' && strcmp(name, "--sha256") == 0) {
        request->sha256 = value;
        return is_digest(value);
    }
    if (verb == 'r' && strcmp(name, "--offset") == 0) {
        return parse_decimal(value, INT64_MAX, &request->offset) == PARSE_OK;
    }
    if (verb == 'r' && strcmp(name, "--length") == 0) {
        return parse_decimal(value, INT64_MAX, &request->length) == PARSE_OK;
    }
    return verb != 'r' && strcmp(name, "--max") == 0 &&
           parse_decimal(value, INT64_MAX, &request->most) == PARSE_OK;
}

int guest_main(char **argv, char **environment) {
    (void)environment;
    static const struct {
        char name[8];
        enum status (*run)(const struct request *request);
    } VERBS[] = {{"read", file_read}, {"write", file_write}, {"list", file_list}};

    if (!argv[0] || !argv[1] || !argv[2] || !argv[3]) {
        return usage();
    }
    const uint64_t unset = UINT64_MAX;
    struct request request = {argv[1], argv[3], -1, 0, INT64_MAX, unset, (unsigned)-1, NULL};
    size_t verb = 0;
    while (verb < sizeof VERBS / sizeof VERBS[0] && strcmp(argv[1], VERBS[verb].name) != 0) {
        verb++;
    }
    if (verb == sizeof VERBS / sizeof VERBS[0] || argv[2][0] != '/') {
        return usage();
    }
    for (char **option = argv + 4; *option; option += 2) {
        if (!option[1] || !take_option(&request, argv[1][0], option[0], option[1])) {
            return usage();
        }
    }
    if (argv[1][0] == 'w' && (request.most == unset || request.mode == (unsigned)-1 || !request.sha256)) {
        return usage();
    }
    if (argv[1][0] == 'l' && request.most == unset) {
        request.most = ENTRIES_DEFAULT;
    }
    /* ROOT is the caller's choice, but a symlink planted in its place is not. */
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    long root = sys_openat2(AT_FDCWD, argv[2], &how);
    if (root < 0) {
        request.path = argv[2];
        return (int)complain_errno(&request, root);
    }
    request.root = (int)root;
    return (int)VERBS[verb].run(&request);
}

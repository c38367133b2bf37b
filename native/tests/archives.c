/* Unit tests of what an archive is read with: headers, records, names, and the patterns that hold them back.
 */
#include "archives.h"

#include "../common/hold.h"
#include "../common/relative.h"
#include "../common/tar.h"
#include "check.h"

#include <stdlib.h>
#include <string.h>

static void fill(struct tar_member *member, const char *path) {
    memset(member, 0, sizeof *member);
    member->mode = 0644;
    member->size = 1234;
    member->mtime = 1700000000;
    strcpy(member->path, path);
}

int test_tar_headers(void) {
    int failures = 0;
    unsigned char block[TAR_BLOCK];
    static struct tar_member member, read;
    fill(&member, "a/b");
    strcpy(member.target, "c");
    tar_write_header(block, '0', &member);
    CHECK(tar_read_header(block, &read) == TAR_OK);
    CHECK(read.type == TAR_FILE && read.mode == 0644 && read.size == 1234 && read.mtime == 1700000000);
    CHECK(strcmp(read.path, "a/b") == 0 && strcmp(read.target, "c") == 0);
    block[0] = 'x';
    CHECK(tar_read_header(block, &read) == TAR_BAD_CHECKSUM);
    memset(block, 0, sizeof block);
    CHECK(tar_read_header(block, &read) == TAR_END);
    /* 100 bytes of name have no NUL behind them. */
    char name[TAR_NAME + 1];
    memset(name, 'n', TAR_NAME);
    name[TAR_NAME] = '\0';
    fill(&member, name);
    tar_write_header(block, '0', &member);
    CHECK(tar_read_header(block, &read) == TAR_OK && strcmp(read.path, name) == 0);
    tar_write_header(block, '5', &member);
    CHECK(tar_read_header(block, &read) == TAR_BAD_TYPE); /* a directory with content */
    member.size = TAR_SIZE_MAX;
    tar_write_header(block, '0', &member);
    CHECK(tar_read_header(block, &read) == TAR_OK && read.size == TAR_SIZE_MAX);
    return failures;
}

static enum tar_result read_pax(const char *text, struct tar_extended *extended) {
    memset(extended, 0, sizeof *extended);
    return tar_read_pax(text, strlen(text), extended);
}

int test_tar_records(void) {
    int failures = 0;
    static struct tar_extended extended;
    CHECK(read_pax("12 path=a/b\n16 size=1234567\n", &extended) == TAR_OK);
    CHECK(strcmp(extended.path, "a/b") == 0 && extended.has_size && extended.size == 1234567);
    CHECK(read_pax("21 mtime=1700000000.5\n", &extended) == TAR_BAD_EXTENDED);
    CHECK(read_pax("22 mtime=1700000000.5\n", &extended) == TAR_OK && extended.mtime == 1700000000);
    static const char *const BAD[] = {
        "",
        "x",
        "12",
        "12 path=a/b",
        "13 path=a/b\n",
        "0 path=a\n",
        "3 =\n",
        "5 a=\nb",

        "8 path=\n",
        "11 path a/b\n",
        "999999999 path=a\n",
        "-1 path=a\n",
        "7 a=bc\n\n",
    };
    for (size_t i = 1; i < sizeof BAD / sizeof BAD[0]; i++) {
        CHECK(read_pax(BAD[i], &extended) != TAR_OK || !extended.path[0]);
    }
    CHECK(read_pax("26 GNU.sparse.realsize=12\n", &extended) == TAR_BAD_TYPE);
    CHECK(read_pax("12 size=-12\n", &extended) == TAR_BAD_NUMBER);
    CHECK(read_pax("28 size=9223372036854775808\n", &extended) == TAR_BAD_NUMBER);

    /* The length of a record counts its own digits: across both edges where they become one more. */
    for (size_t length = 1; length < 1200; length++) {
        static char value[2000], text[4000];
        memset(value, 'v', length);
        value[length] = '\0';
        size_t size = tar_write_record(text, 0, sizeof text, "path", value);
        CHECK(size > 0);
        memset(&extended, 0, sizeof extended);
        CHECK(tar_read_pax(text, size, &extended) == TAR_OK && strcmp(extended.path, value) == 0);
        CHECK(tar_write_record(text, 0, size - 1, "path", value) == 0);
    }
    char name[RELATIVE_MAX];
    CHECK(tar_read_gnu_name("long\0", 5, name) == TAR_OK && strcmp(name, "long") == 0);
    CHECK(tar_read_gnu_name("", 0, name) == TAR_BAD_EXTENDED);
    CHECK(tar_read_gnu_name("a\0b", 3, name) == TAR_BAD_EXTENDED);
    return failures;
}

/* Not random to whoever runs it again. */
static unsigned next(unsigned *state) {
    *state = *state * 1664525U + 1013904223U;
    return *state >> 8;
}

static void mend(unsigned char block[static TAR_BLOCK]) {
    unsigned sum = 0;
    memset(block + 148, ' ', 8);
    for (size_t i = 0; i < TAR_BLOCK; i++) {
        sum += block[i];
    }
    snprintf((char *)block + 148, 8, "%06o", sum);
}

/* Sanitizers see what goes out of bounds; here, that what is accepted is within its own. */
int test_tar_survives_any_bytes(void) {
    int failures = 0;
    unsigned state = 7;
    static struct tar_member member;
    static struct tar_extended extended;
    for (unsigned turn = 0; turn < 200000; turn++) {
        unsigned char *block = malloc(TAR_BLOCK); /* so that one byte more is seen */
        fill(&member, "some/name");
        tar_write_header(block, (char)('0' + turn % 8), &member);
        for (unsigned changes = next(&state) % 16; changes > 0; changes--) {
            block[next(&state) % TAR_BLOCK] = (unsigned char)next(&state);
        }
        mend(block);
        if (tar_read_header(block, &member) == TAR_OK) {
            CHECK(member.mode <= 0777 && member.size <= INT64_MAX);
            CHECK(strlen(member.path) < 257 && strlen(member.target) <= TAR_NAME);
        }
        free(block);
    }
    static const char ALPHABET[] = "0123456789 =\npathsizelinkmtime./";
    for (unsigned turn = 0; turn < 200000; turn++) {
        size_t size = 1 + next(&state) % 40;
        char *text = malloc(size);
        for (size_t i = 0; i < size; i++) {
            text[i] = ALPHABET[next(&state) % (sizeof ALPHABET - 1)];
        }
        memset(&extended, 0, sizeof extended);
        (void)tar_read_pax(text, size, &extended);
        CHECK(strlen(extended.path) < 40 && strlen(extended.target) < 40);
        free(text);
    }
    return failures;
}

int test_clean_paths(void) {
    int failures = 0;
    char clean[RELATIVE_MAX];
    static const struct {
        const char *path, *clean;
    } GOOD[] = {{"a", "a"}, {"./a", "a"},   {"a//b/", "a/b"}, {"a/./b", "a/b"}, {".", ""},
                {"", ""},   {"..a", "..a"}, {"a..", "a.."},   {"...", "..."},   {"./", ""}};
    for (size_t i = 0; i < sizeof GOOD / sizeof GOOD[0]; i++) {
        CHECK(relative_clean(GOOD[i].path, clean) == RELATIVE_OK && strcmp(clean, GOOD[i].clean) == 0);
    }
    static const char *const BAD[] = {"/", "/a", "..", "../a", "a/..", "a/../b", "./..", "a//../b"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        CHECK(relative_clean(BAD[i], clean) != RELATIVE_OK);
    }
    CHECK(relative_stays("/ws", 0, "a") && relative_stays("/ws", 1, "..") &&
          relative_stays("/ws", 2, "../../a"));
    CHECK(!relative_stays("/ws", 0, "..") && !relative_stays("/ws", 1, "../..") &&
          !relative_stays("/ws", 0, "a/../.."));
    CHECK(relative_stays("/ws", 0, "/ws") && relative_stays("/ws", 0, "/ws/a/../b"));
    CHECK(!relative_stays("/ws", 5, "/ws/..") && !relative_stays("/ws", 5, "/ws-evil") &&
          !relative_stays("/ws", 5, "/"));
    return failures;
}

int test_what_is_held(void) {
    int failures = 0;
    static const struct {
        const char *pattern, *path;
        bool held;
    } CASES[] = {
        {"**/.git/", "/ws/.git", true},
        {"**/.git/", "/ws/.git/hooks/x", true},
        {"**/.git/", "/ws/.gitignore", false},
        {"**/.git/", "/ws/a.git/x", false},
        {"**/.env", "/ws/a/.env", true},
        {"**/.env", "/ws/.env/x", false},
        {"**/*.key", "/ws/a.key", true},
        {"**/*.key", "/ws/.key", true},
        {"**/*.key", "/ws/a.keys", false},
        {"**/*key*.pem", "/ws/mykey1.pem", true},
        {"**/*key*.pem", "/ws/kpem", false},
        {"**/a/b", "/ws/x/a/b", true},
        {"**/a/b", "/ws/a/x/b", false},
        {"/etc/shadow", "/etc/shadow", true},
        {"/etc/shadow", "/ws/etc/shadow", false},
        {"/etc/", "/etc/a/b", true},
        {"/etc/", "/etcetera", false},
        {"/proc/*/mem", "/proc/1/mem", true},
        {"/proc/*/mem", "/proc/1/2/mem", false},
        {"**/", "/ws", false},
        {"", "/ws", false},
        {"ws", "/ws", false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        CHECK(hold_covers(CASES[i].pattern, CASES[i].path) == CASES[i].held);
    }
    return failures;
}

/*
 * Unit tests of what launch and the guest programs share: parsing, path text, search, digests. No framework:
 * the exit status says whether any CHECK failed. Run with ASan and UBSan too.
 */
#include "../common/filter.h"
#include "../common/limits.h"
#include "../common/parse.h"
#include "../common/relative.h"
#include "../common/search.h"
#include "../common/sha256.h"
#include "../guest/report.h"
#include "../guest/run_options.h"
#include "../guest/sequence.h"
#include "../launch/cgroup.h"
#include "../launch/plan.h"
#include "../launch/result.h"
#include "archives.h"
#include "check.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static int test_numbers(void) {
    int failures = 0;
    uint64_t value = 7;
    CHECK(parse_decimal("0", 10, &value) == PARSE_OK && value == 0);
    CHECK(parse_decimal("18446744073709551615", UINT64_MAX, &value) == PARSE_OK && value == UINT64_MAX);
    value = 7;
    CHECK(parse_decimal("18446744073709551616", UINT64_MAX, &value) == PARSE_OUT_OF_RANGE);
    CHECK(parse_decimal("99999999999999999999999999", UINT64_MAX, &value) == PARSE_OUT_OF_RANGE);
    CHECK(parse_decimal("11", 10, &value) == PARSE_OUT_OF_RANGE);
    static const char *const NOT_NUMBERS[] = {"", "-1", "+1", " 1", "1 ", "0x1", "1e3", "a", "1\n"};
    for (size_t i = 0; i < sizeof NOT_NUMBERS / sizeof NOT_NUMBERS[0]; i++) {
        CHECK(parse_decimal(NOT_NUMBERS[i], UINT64_MAX, &value) == PARSE_NOT_A_NUMBER);
    }
    CHECK(value == 7); /* no output on failure */
    CHECK(parse_octal("0644", 0777, &value) == PARSE_OK && value == 0644);
    CHECK(parse_octal("8", 0777, &value) == PARSE_NOT_A_NUMBER);
    CHECK(parse_octal("4755", 0777, &value) == PARSE_OUT_OF_RANGE);
    CHECK(parse_word("0xffffffffffffffff", &value) == PARSE_OK && value == UINT64_MAX);
    CHECK(parse_word("-1", &value) == PARSE_OK && value == UINT64_MAX);
    CHECK(parse_word("-9223372036854775808", &value) == PARSE_OK && value == UINT64_C(1) << 63);
    CHECK(parse_word("-9223372036854775809", &value) == PARSE_OUT_OF_RANGE);
    CHECK(parse_word("0x", &value) == PARSE_NOT_A_NUMBER);
    CHECK(parse_word("0x1ffffffffffffffff", &value) == PARSE_OUT_OF_RANGE);
    return failures;
}

static int test_ids_and_descriptors(void) {
    int failures = 0;
    uint32_t id = 0;
    CHECK(parse_unprivileged_id("1", &id) == PARSE_OK && id == 1);
    CHECK(parse_unprivileged_id("4294967294", &id) == PARSE_OK && id == 4294967294U);
    CHECK(parse_unprivileged_id("0", &id) == PARSE_NOT_ALLOWED);
    CHECK(parse_unprivileged_id("00", &id) == PARSE_NOT_ALLOWED);
    CHECK(parse_unprivileged_id("4294967295", &id) == PARSE_OUT_OF_RANGE);
    CHECK(parse_unprivileged_id("4294967296", &id) == PARSE_OUT_OF_RANGE);
    int fd = -1;
    CHECK(parse_descriptor("3", &fd) == PARSE_OK && fd == 3);
    CHECK(parse_descriptor("2", &fd) == PARSE_OUT_OF_RANGE);
    CHECK(parse_descriptor("2147483648", &fd) == PARSE_OUT_OF_RANGE);
    return failures;
}

static int test_R34_limits_never_become_unlimited(void) {
    int failures = 0;
    struct limits limits = {.count = 0};
    CHECK(limits_add(&limits, "NOFILE=256") == PARSE_OK);
    CHECK(limits.count == 1 && limits.item[0].resource == RLIMIT_NOFILE && limits.item[0].value == 256);
    CHECK(limits_add(&limits, "NOFILE=512") == PARSE_REPEATED);
    CHECK(limits_add(&limits, "AS=0") == PARSE_OK);
    CHECK(limits_add(&limits, "FSIZE=9007199254740992") == PARSE_OK);
    CHECK(limits_add(&limits, "DATA=9223372036854775808") == PARSE_OUT_OF_RANGE);
    CHECK(limits_add(&limits, "DATA=18446744073709551615") == PARSE_OUT_OF_RANGE);
    CHECK(limits_add(&limits, "DATA=-1") == PARSE_NOT_A_NUMBER);
    CHECK(limits_add(&limits, "DATA=unlimited") == PARSE_NOT_A_NUMBER);
    CHECK(limits_add(&limits, "DATA=") == PARSE_NOT_A_NUMBER);
    CHECK(limits_add(&limits, "DATA") == PARSE_UNKNOWN_NAME);
    CHECK(limits_add(&limits, "nofile=1") == PARSE_UNKNOWN_NAME);
    CHECK(limits_add(&limits, "ASX=1") == PARSE_UNKNOWN_NAME);
    CHECK(limits.count == 3);
    return failures;
}

static int test_filter_size(void) {
    int failures = 0;
    CHECK(filter_size_is_valid(8));
    CHECK(filter_size_is_valid(4096 * 8));
    CHECK(!filter_size_is_valid(0));
    CHECK(!filter_size_is_valid(12));
    CHECK(!filter_size_is_valid(4097 * 8));
    return failures;
}

static int test_search(void) {
    int failures = 0;
    char *environment[] = {(char[]){"HOME=/root"}, (char[]){"PATH=/a:/b/c"}, NULL};
    CHECK(strcmp(search_path(environment), "/a:/b/c") == 0);
    CHECK(strcmp(search_path(environment + 2), SEARCH_DEFAULT_PATH) == 0);

    char candidate[16];
    const char *path = "/a::.:rel:/b/:/a-rather-long-directory:/c";
    CHECK(search_next(&path, "sh", candidate, sizeof candidate) && strcmp(candidate, "/a/sh") == 0);
    CHECK(search_next(&path, "sh", candidate, sizeof candidate) && strcmp(candidate, "/b//sh") == 0);
    CHECK(search_next(&path, "sh", candidate, sizeof candidate) && strcmp(candidate, "/c/sh") == 0);
    CHECK(!search_next(&path, "sh", candidate, sizeof candidate));
    path = "/123456789012"; /* with "/sh" and NUL exactly 17 bytes: one too many */
    CHECK(!search_next(&path, "sh", candidate, sizeof candidate));
    path = "/12345678901";
    CHECK(search_next(&path, "sh", candidate, sizeof candidate) && strlen(candidate) == 15);
    path = "";
    CHECK(!search_next(&path, "sh", candidate, sizeof candidate));
    return failures;
}

static int test_relative_paths(void) {
    int failures = 0;
    struct relative at;
    CHECK(relative_split("a", &at) == RELATIVE_OK && strcmp(at.directory, ".") == 0 &&
          strcmp(at.name, "a") == 0);
    CHECK(relative_split("a/../b", &at) == RELATIVE_OK && strcmp(at.directory, "a/..") == 0);
    CHECK(relative_split("a//b", &at) == RELATIVE_OK && strcmp(at.directory, "a/") == 0);
    CHECK(relative_split("..a", &at) == RELATIVE_OK && strcmp(at.name, "..a") == 0);
    CHECK(relative_split("", &at) == RELATIVE_EMPTY);
    CHECK(relative_split("/a", &at) == RELATIVE_ABSOLUTE);
    CHECK(relative_split("a/", &at) == RELATIVE_NO_FILE_NAME);
    CHECK(relative_split("a/.", &at) == RELATIVE_NO_FILE_NAME);
    CHECK(relative_split("..", &at) == RELATIVE_NO_FILE_NAME);

    char text[RELATIVE_MAX + 1];
    memset(text, 'a', sizeof text);
    text[256] = '\0';
    CHECK(relative_split(text, &at) == RELATIVE_TOO_LONG);
    CHECK(relative_split(text + 1, &at) == RELATIVE_OK && strlen(at.name) == 255);
    memset(text, 'a', sizeof text);
    for (size_t i = 1; i < RELATIVE_MAX; i += 2) {
        text[i] = '/';
    }
    text[RELATIVE_MAX] = '\0';
    CHECK(relative_split(text, &at) == RELATIVE_TOO_LONG);
    text[RELATIVE_MAX - 1] = '\0';
    CHECK(relative_split(text, &at) == RELATIVE_OK && strlen(at.directory) == RELATIVE_MAX - 3);

    CHECK(relative_follow(&at, text, &at) == RELATIVE_TOO_LONG);
    CHECK(relative_split("d/link", &at) == RELATIVE_OK);
    CHECK(relative_follow(&at, "/etc/passwd", &at) == RELATIVE_ABSOLUTE);
    CHECK(relative_follow(&at, "..", &at) == RELATIVE_NO_FILE_NAME);
    CHECK(relative_follow(&at, "../t", &at) == RELATIVE_OK);
    CHECK(strcmp(at.directory, "d/..") == 0 && strcmp(at.name, "t") == 0);
    return failures;
}

static int test_cgroup_paths(void) {
    int failures = 0;
    static const char *const GOOD[] = {"/sys/fs/cgroup/a", "/sys/fs/cgroup/pids/opensafe/x",
                                       "/sys/fs/cgroup/..a"};
    static const char *const BAD[] = {
        "",
        "/",
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/",
        "/sys/fs/cgroup//a",
        "/sys/fs/cgroup/a/",
        "/sys/fs/cgroup/../cgroup/a",
        "/sys/fs/cgroup/a/..",
        "/sys/fs/cgroup/./a",
        "/sys/fs/cgroup-evil/a",
        "sys/fs/cgroup/a",
        "/tmp/sys/fs/cgroup/a",
    };
    for (size_t i = 0; i < sizeof GOOD / sizeof GOOD[0]; i++) {
        CHECK(cgroup_path_is_valid(GOOD[i]));
    }
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        CHECK(!cgroup_path_is_valid(BAD[i]));
    }
    return failures;
}

/* Splits a command line at single spaces into argv; `text` must outlive it. */
static char **words(char *text, char *argv[static 256]) {
    size_t count = 0;
    for (char *word = strtok(text, " "); word && count < 255; word = strtok(NULL, " ")) {
        argv[count++] = word;
    }
    argv[count] = NULL;
    return argv;
}

static enum result plan_of(const char *line, struct plan *plan, struct failure *failure) {
    static char text[16384]; /* the plan borrows from it */
    char *argv[256];
    snprintf(text, sizeof text, "launch %s", line);
    return plan_parse(words(text, argv), plan, failure);
}

static int test_launch_plan(void) {
    int failures = 0;
    struct plan plan;
    struct failure failure;
    CHECK(
        plan_of("--keep-fd 9 --keep-fd 4 --keep-fd 7 --user 10:20 --groups 5,6 --bind /a /b --rlimit NPROC=9 "
                "--no-new-privileges --filter-fd 3 --cgroup /sys/fs/cgroup/x -- /bin/true",
                &plan, &failure) == RESULT_OK);
    CHECK(plan.keep_fd_count == 3 && plan.keep_fd[0] == 4 && plan.keep_fd[1] == 7 && plan.keep_fd[2] == 9);
    CHECK(plan.change_user && plan.uid == 10 && plan.gid == 20);
    CHECK(plan.group_count == 2 && plan.group[0] == 5 && plan.group[1] == 6);
    CHECK(plan.bind_count == 1 && plan.cgroup_count == 1 && plan.limits.count == 1 && plan.filter_fd == 3);
    CHECK(plan.no_new_privileges && !plan.drop_capabilities && !plan.new_session && !plan.die_with_parent);
    CHECK(plan_of("-- /bin/true", &plan, &failure) == RESULT_OK && plan.filter_fd == -1);

    static const char *const BAD[] = {
        "",
        "--",
        "/bin/true",
        "-- true",
        "-- ./true",
        "--keep-fd",
        "--keep-fd 2 -- /bin/true",
        "--keep-fd 3 --keep-fd 3 -- /bin/true",
        "--user 0:1 -- /bin/true",
        "--user 1:0 -- /bin/true",
        "--user 1 -- /bin/true",
        "--user :1 -- /bin/true",
        "--user 1: -- /bin/true",
        "--user 1:1:1 -- /bin/true",
        "--user 4294967295:1 -- /bin/true",
        "--user 1:1 --user 1:1 -- /bin/true",
        "--user 1:1 --groups 0 -- /bin/true",
        "--user 1:1 --groups 5,,6 -- /bin/true",
        "--user 1:1 --groups 5, -- /bin/true",
        "--groups 5 -- /bin/true",
        "--filter-fd 3 -- /bin/true",
        "--bind a /b -- /bin/true",
        "--bind /a b -- /bin/true",
        "--bind /a -- /bin/true",
        "--rlimit BOGUS=1 -- /bin/true",
        "--new-session --new-session -- /bin/true",
        "--cgroups /sys/fs/cgroup/x -- /bin/true",
        "--keep-fd=3 -- /bin/true",
    };
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++) {
        plan.filter_fd = 77;
        CHECK(plan_of(BAD[i], &plan, &failure) == RESULT_USAGE);
        CHECK(plan.filter_fd == 77 && failure.object && failure.detail);
    }
    CHECK(plan_of("--cgroup /tmp/x -- /bin/true", &plan, &failure) == RESULT_NOT_A_CGROUP_PATH);
    char *nothing[] = {NULL};
    CHECK(plan_parse(nothing, &plan, &failure) == RESULT_USAGE);
    return failures;
}

static int test_launch_plan_has_caps(void) {
    int failures = 0;
    struct plan plan;
    struct failure failure;
    static const struct {
        const char *word;
        int most;
    } REPEATED[] = {{"--bind /a /b ", PLAN_BINDS_MAX}, {"--cgroup /sys/fs/cgroup/x ", PLAN_CGROUPS_MAX}};
    for (size_t i = 0; i < sizeof REPEATED / sizeof REPEATED[0]; i++) {
        char line[8192] = "";
        for (int k = 0; k < REPEATED[i].most; k++) {
            strcat(line, REPEATED[i].word);
        }
        char more[8192];
        snprintf(more, sizeof more, "%.4000s%s-- /bin/true", line, REPEATED[i].word);
        strcat(line, "-- /bin/true");
        CHECK(plan_of(line, &plan, &failure) == RESULT_OK);
        CHECK(plan_of(more, &plan, &failure) == RESULT_USAGE);
    }
    char line[2048] = "";
    for (int fd = PLAN_DESCRIPTORS_MAX + 3; fd > 2; fd--) {
        sprintf(line + strlen(line), "--keep-fd %d ", fd);
    }
    strcat(line, "-- /bin/true");
    CHECK(plan_of(line, &plan, &failure) == RESULT_USAGE);
    return failures;
}

static int test_results_have_text(void) {
    int failures = 0;
    bool has_errno;
    for (int result = RESULT_OK; result <= RESULT_EXEC; result++) {
        CHECK(strcmp(result_to_string((enum result)result, &has_errno), "unknown result") != 0);
        CHECK(has_errno == (result >= RESULT_CGROUP));
    }
    for (int result = PARSE_OK; result <= PARSE_NOT_ALLOWED; result++) {
        CHECK(strcmp(parse_result_to_string((enum parse_result)result), "unknown result") != 0);
    }
    for (int result = RELATIVE_OK; result <= RELATIVE_NO_FILE_NAME; result++) {
        CHECK(strcmp(relative_result_to_string((enum relative_result)result), "unknown result") != 0);
    }
    return failures;
}

static enum parse_result run_of(const char *line, struct run_options *options) {
    static char text[8192];
    char *argv[256];
    const char *word;
    snprintf(text, sizeof text, "run %s", line);
    return run_options_parse(words(text, argv), options, &word);
}

static int test_run_options(void) {
    int failures = 0;
    struct run_options options;
#define BASE "--uid 1000 --gid 100 --cwd /w --report-fd 4 --runner-uid 990 "
    CHECK(run_of(BASE "-- sh -c x", &options) == PARSE_OK);
    CHECK(options.uid == 1000 && options.gid == 100 && options.runner_uid == 990 && options.report_fd == 4);
    CHECK(options.filter_fd == -1 && options.limits.count == 0);
    CHECK(run_of(BASE "--filter-fd 5 --rlimit AS=1 --rlimit CPU=2 -- sh", &options) == PARSE_OK);
    CHECK(options.filter_fd == 5 && options.limits.count == 2);

    CHECK(run_of("--uid 0 --gid 0 --groups 0,7 --cwd / --report-fd 4 --runner-uid 9 -- sh", &options) ==
          PARSE_OK);
    CHECK(options.uid == 0 && options.gid == 0 && options.group_count == 2 && options.group[1] == 7);

    options.uid = 77;
    CHECK(run_of(BASE "--", &options) == PARSE_MISSING);
    CHECK(run_of(BASE, &options) == PARSE_MISSING);
    CHECK(run_of("--uid 1000 --gid 100 --cwd /w --report-fd 4 -- sh", &options) == PARSE_MISSING);
    CHECK(run_of(BASE "--uid 1000 -- sh", &options) == PARSE_REPEATED);
    CHECK(run_of(BASE "--filter-fd 4 -- sh", &options) == PARSE_NOT_ALLOWED);
    CHECK(run_of(BASE "--filter-fd", &options) == PARSE_MISSING_VALUE);
    CHECK(run_of(BASE "--verbose 1 -- sh", &options) == PARSE_UNKNOWN_OPTION);
    CHECK(run_of("--uid 990 --gid 100 --cwd /w --report-fd 4 --runner-uid 990 -- sh", &options) ==
          PARSE_NOT_ALLOWED);
    CHECK(run_of("--uid 1 --gid 100 --cwd /w --report-fd 4 --runner-uid 0 -- sh", &options) ==
          PARSE_NOT_ALLOWED);
    CHECK(run_of(BASE "--groups 1,,2 -- sh", &options) == PARSE_NOT_A_NUMBER);
    CHECK(run_of(BASE "--groups 4294967295 -- sh", &options) == PARSE_OUT_OF_RANGE);
    CHECK(run_of(BASE "--groups 12345678901234567890 -- sh", &options) == PARSE_OUT_OF_RANGE);
    CHECK(run_of(BASE "--groups 1 --groups 2 -- sh", &options) == PARSE_REPEATED);
    CHECK(run_of(BASE "--groups 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1 -- sh",
                 &options) == PARSE_TOO_MANY);
    CHECK(run_of("--uid 1 --gid 1 --runner-uid 9 --report-fd 4 --command-fd 5 --groups 1", &options) ==
          PARSE_NOT_ALLOWED);
    CHECK(run_of("--uid 1 --gid 100 --cwd w --report-fd 4 --runner-uid 990 -- sh", &options) ==
          PARSE_NOT_ALLOWED);
    CHECK(run_of("--uid 1 --gid 1 --cwd / --report-fd 4 --runner-uid 9 --terminal-fd 4 -- sh", &options) ==
          PARSE_NOT_ALLOWED);
    CHECK(run_of("--uid 1 --gid 1 --cwd / --report-fd 4 --runner-uid 9 --filter-fd 5 --terminal-fd 5 -- sh",
                 &options) == PARSE_NOT_ALLOWED);
    CHECK(options.uid == 77);

    char *argv[] = {(char[]){"run"}, (char[]){"--bad"}, (char[]){"--report-fd"}, (char[]){"8"}, NULL};
    CHECK(run_options_report_fd(argv) == 8);
    argv[3] = NULL;
    CHECK(run_options_report_fd(argv) == -1);
    argv[2] = (char[]){"--"};
    CHECK(run_options_report_fd(argv) == -1);
    return failures;
}

/* The digest of `count` copies of `text`, handed over in pieces of at most `piece` bytes. */
static bool hashes_to(const char *text, unsigned count, size_t piece, const char *digest) {
    struct sha256 hash;
    sha256_start(&hash);
    for (unsigned i = 0; i < count; i++) {
        for (size_t at = 0, size = strlen(text); at < size; at += piece) {
            sha256_add(&hash, text + at, size - at < piece ? size - at : piece);
        }
    }
    char got[SHA256_DIGITS + 1];
    sha256_end(&hash, got);
    return strcmp(got, digest) == 0;
}

/* The messages of FIPS 180-4's examples (one block, two blocks, a million bytes), and the empty one. */
static int test_sha256_gives_the_digests_of_the_standard(void) {
    int failures = 0;
    static const char EMPTY[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    static const char TWO_BLOCKS[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    CHECK(hashes_to("", 1, 64, EMPTY));
    CHECK(hashes_to("abc", 1, 64, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
    for (size_t piece = 1; piece <= sizeof TWO_BLOCKS; piece++) {
        CHECK(hashes_to(TWO_BLOCKS, 1, piece,
                        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"));
    }
    CHECK(hashes_to("aaaaaaaaaa", 100000, 7,
                    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"));
    return failures;
}

/* 55 bytes is the most that shares a block with the length, 64 a whole block: each side of both edges. */
static int test_sha256_pads_at_the_edges_of_a_block(void) {
    int failures = 0;
    static const struct {
        unsigned size;
        const char *digest;
    } EDGES[] = {
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
        {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
        {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
        {120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"},
        {128, "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e"},
    };
    for (size_t i = 0; i < sizeof EDGES / sizeof EDGES[0]; i++) {
        CHECK(hashes_to("a", EDGES[i].size, 1, EDGES[i].digest));
    }
    return failures;
}

static int test_sequences_stay_within_their_limits(void) {
    int failures = 0;
    struct sequence_head head = {.magic = SEQUENCE_MAGIC, .image = SEQUENCE_IMAGE};
    CHECK(sequence_head_valid(&head));
    head.image++;
    CHECK(!sequence_head_valid(&head));
    head = (struct sequence_head){.magic = SEQUENCE_MAGIC + 1};
    CHECK(!sequence_head_valid(&head));

    struct sequence_poke poke = {.offset = SEQUENCE_IMAGE - 8};
    struct sequence_call calls[2] = {{.number = 39}, {.number = 3, .earlier = 1, .argument = {0}}};
    struct sequence sequence = {.calls = 2, .pokes = 1, .limit_us = 30000};
    CHECK(sequence_valid(&sequence, &poke, calls));
    poke.offset++;
    CHECK(!sequence_valid(&sequence, &poke, calls));
    poke.offset = UINT64_MAX;
    CHECK(!sequence_valid(&sequence, &poke, calls));
    poke.offset = 0;
    sequence.limit_us = 0;
    CHECK(!sequence_valid(&sequence, &poke, calls));
    sequence.limit_us = SEQUENCE_PATIENCE_US;
    CHECK(!sequence_valid(&sequence, &poke, calls));
    sequence.limit_us = SEQUENCE_PATIENCE_US - 1;
    CHECK(sequence_valid(&sequence, &poke, calls));
    sequence.limit_us = 1;
    sequence.calls = 0;
    CHECK(!sequence_valid(&sequence, &poke, calls));
    sequence.calls = SEQUENCE_CALLS + 1;
    CHECK(!sequence_valid(&sequence, &poke, calls));
    return failures;
}

static int test_a_call_means_earlier_calls_only(void) {
    int failures = 0;
    struct sequence sequence = {.calls = 2, .limit_us = 1};
    struct sequence_call calls[2] = {{.number = 39}, {.number = 3, .earlier = 1, .argument = {1}}};
    CHECK(!sequence_valid(&sequence, NULL, calls));
    calls[1].argument[0] = 0;
    CHECK(sequence_valid(&sequence, NULL, calls));
    calls[0].earlier = 1;
    CHECK(!sequence_valid(&sequence, NULL, calls));
    calls[0].earlier = 1U << 6;
    CHECK(!sequence_valid(&sequence, NULL, calls));
    struct sequence_call fork = {.number = 57};
    CHECK(sequence_forks(&fork) && !sequence_forks(&calls[1]));
    return failures;
}

int main(void) {
    static int (*const TESTS[])(void) = {
        test_numbers,
        test_ids_and_descriptors,
        test_filter_size,
        test_R34_limits_never_become_unlimited,
        test_search,
        test_relative_paths,
        test_cgroup_paths,
        test_launch_plan,
        test_launch_plan_has_caps,
        test_results_have_text,
        test_run_options,
        test_sha256_gives_the_digests_of_the_standard,
        test_sha256_pads_at_the_edges_of_a_block,
        test_tar_headers,
        test_tar_records,
        test_tar_survives_any_bytes,
        test_clean_paths,
        test_what_is_held,
        test_sequences_stay_within_their_limits,
        test_a_call_means_earlier_calls_only,
    };
    int failures = 0;
    for (size_t i = 0; i < sizeof TESTS / sizeof TESTS[0]; i++) {
        failures += TESTS[i]();
    }
    printf("%zu unit tests, %d failed checks\n", sizeof TESTS / sizeof TESTS[0], failures);
    return failures ? 1 : 0;
}

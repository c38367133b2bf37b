/*
 * What `run` tells its starter on the report descriptor: records of 16 bytes, little-endian, one write each.
 *
 *   offset 0  u32 kind       enum report_kind
 *          4  u32 stage      enum run_stage; 0 in LEADER_EXITED
 *          8  s32 value      LEADER_EXITED: wait status as wait4(2) gives it; SETUP_FAILED: errno
 *         12  u32 flags      enum report_flag; 0 in SETUP_FAILED
 *
 * Exactly one record is sent per call, then the descriptor is closed at the latest when `run` exits. End of
 * file without a record means that `run` itself was killed: the outcome is unknown, not zero.
 */
#ifndef OPENSAFE_REPORT_H
#define OPENSAFE_REPORT_H

#include <stdint.h>

enum report_kind {
    REPORT_LEADER_EXITED = 1, /* sent at once when the program ends; `run` stays until all of it has */
    REPORT_SETUP_FAILED = 2,  /* nothing was executed */
};

enum report_flag {
    REPORT_REMAINING = 1,  /* other processes of the call are still there */
    REPORT_OUTPUT_CUT = 2, /* of what was written to the terminal, the end did not get through */
};

/* The numbers are part of the record: append only. */
enum run_stage {
    STAGE_NONE = 0,
    STAGE_ARGUMENT = 1,      /* the command line: value is EINVAL */
    STAGE_FILTER_READ = 2,   /* the filter's bytes: EINVAL for a size that is not 1 to 4096 instructions */
    STAGE_RUNNER = 3,        /* the runner's own subreaper flag, capabilities, dumpable flag, signal mask */
    STAGE_GROUPS = 4,        /* setgroups: to none, and then to the program's */
    STAGE_GID = 5,           /* of the runner or of the program */
    STAGE_UID = 6,           /* of the runner or of the program */
    STAGE_NNP = 7,           /* no_new_privs */
    STAGE_SPAWN = 8,         /* clone */
    STAGE_DESCRIPTORS = 9,   /* close_range */
    STAGE_SESSION = 10,      /* setsid */
    STAGE_RLIMIT = 11,       /* prlimit64 */
    STAGE_CAPABILITIES = 12, /* the program's, to none; of uid 0 the bounding set, too */
    STAGE_CWD = 13,          /* chdir, as the program's user */
    STAGE_FILTER = 14,       /* seccomp: the kernel refused the filter */
    STAGE_EXEC = 15,         /* execve, or no such command in PATH (ENOENT) */
    STAGE_TERMINAL = 16,     /* opened, or made the program's own */
    STAGE_COMMAND = 17,      /* a command that comes later: received and read */
};

struct report {
    uint32_t kind;
    uint32_t stage;
    int32_t value;
    uint32_t flags;
};

_Static_assert(sizeof(struct report) == 16, "the record is 16 bytes");

#endif

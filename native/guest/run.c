/*
 * run: the program that the daemon starts for every call. It sets the call up, stays as the subreaper above
 * it, and says how it ended (report.h).
 *
 *   run --uid U --gid G [--groups G,…] --cwd DIR --runner-uid R --report-fd M [--filter-fd N]
 *       [--terminal-fd N] [--rlimit NAME=VALUE]… -- PROGRAM [ARG…]
 *
 * Started as uid 0 with CAP_SETUID and CAP_SETGID, for a program of uid 0 CAP_SETPCAP as well, and nothing
 * else. The order is the point: the runner has taken its own uid, and everything that can fail has been
 * tried, before the program exists, so that "setup failed" means that nothing was executed. The child is
 * vfork's kind: it shares the runner's memory while the runner sleeps, which is the cheapest form and lets it
 * leave its errno where the runner reads it. The memory is safe in that time because the runner is not
 * dumpable: nobody can trace or open it.
 */
#include "../common/filter.h"
#include "../common/search.h"
#include "command.h"
#include "line.h"
#include "report.h"
#include "run_options.h"
#include "start.h"
#include "sys.h"
#include "terminal.h"

#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <string.h>

enum {
    STATUS_SETUP_FAILED = 125,
    CHILD_SIGNAL = 17,   /* SIGCHLD */
    STACK_BYTES = 16384, /* the child's; it holds one path */
    REAP_AT_ONCE = 64,   /* so that a flood of dying children cannot hold the report back */
};

struct call {
    struct run_options *options;
    char **environment;
    struct terminal *terminal; /* NULL: none */
    struct command *command;   /* NULL: it is in the options */
    enum run_stage stage;      /* where set-up failed; STAGE_NONE: it did not */
    long error;                /* -errno */
    struct filter filter;      /* 32 KiB, deliberately not zeroed: an untouched page costs nothing */
};

static bool failed(struct call *call, enum run_stage stage, long result) {
    if (result >= 0) {
        return false;
    }
    call->stage = stage;
    call->error = result;
    return true;
}

static void send_report(int fd, enum report_kind kind, enum run_stage stage, int value, uint32_t flags) {
    struct report report = {kind, stage, value, flags};
    /* With all signals blocked a reader that has gone is an error nobody is left to hear. */
    write_all(fd, &report, sizeof report);
}

static long read_filter(int fd, struct filter *ret) {
    size_t length = 0;
    while (length < sizeof ret->instruction) {
        long got = sys_read(fd, (char *)ret->instruction + length, sizeof ret->instruction - length);
        if (got == -EINTR) {
            continue;
        }
        if (got < 0) {
            return got;
        }
        if (got == 0) {
            break;
        }
        length += (size_t)got;
    }
    if (!filter_size_is_valid(length)) {
        return -EINVAL;
    }
    ret->count = (unsigned short)(length / sizeof ret->instruction[0]);
    return 0;
}

static long set_capabilities(uint32_t low) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{.effective = low, .permitted = low}};
    return sys_capset(&header, sets);
}

/* A terminal belongs to the effective user of whoever opens it, and the program may want to open it again. */
static long open_terminal(const struct run_options *options, struct terminal *ret) {
    const long keep = -1;
    long result = sys_call(__NR_setresgid, keep, options->gid, keep, 0, 0, 0);
    if (result >= 0 && (result = sys_call(__NR_setresuid, keep, options->uid, keep, 0, 0, 0)) >= 0 &&
        (result = terminal_open(options->terminal_fd, ret)) >= 0 &&
        (result = sys_call(__NR_setresuid, keep, options->runner_uid, keep, 0, 0, 0)) >= 0) {
        result = sys_call(__NR_setresgid, keep, options->runner_uid, keep, 0, 0, 0);
    }
    return result;
}

static long set_gid(uint32_t gid) {
    return sys_call(__NR_setresgid, gid, gid, gid, 0, 0, 0);
}

static long set_groups(const struct run_options *options) {
    return sys_call(__NR_setgroups, options->group_count, (long)options->group, 0, 0, 0, 0);
}

/* An execve gives uid 0 what is in the bounding set, and only no_new_privs holds it back. With an empty set
 * there is nothing to give. Needs CAP_SETPCAP. */
static long empty_bounding_set(void) {
    const unsigned long HIGHEST = 63;
    for (unsigned long capability = 0; capability <= HIGHEST; capability++) {
        if (sys_prctl(PR_CAPBSET_READ, capability, 0, 0) > 0) {
            long result = sys_prctl(PR_CAPBSET_DROP, capability, 0, 0);
            if (result < 0) {
                return result;
            }
        }
    }
    return 0;
}

static long set_uid(uint32_t uid) {
    return sys_call(__NR_setresuid, uid, uid, uid, 0, 0, 0);
}

/* What runner and program have in common, and the runner's own identity. True when all of it worked. */
static bool become_runner(struct call *call) {
    const struct run_options *options = call->options;
    /* Exactly these two, kept over the change of uid for the child; the runner drops them after the spawn. */
    const uint32_t needed = 1U << CAP_SETUID | 1U << CAP_SETGID;
    return !((options->uid == 0 && failed(call, STAGE_CAPABILITIES, empty_bounding_set())) ||
             failed(call, STAGE_RUNNER, sys_prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0)) ||
             failed(call, STAGE_RUNNER, sys_prctl(PR_SET_KEEPCAPS, 1, 0, 0)) ||
             failed(call, STAGE_GROUPS, sys_call(__NR_setgroups, 0, 0, 0, 0, 0, 0)) ||
             failed(call, STAGE_GID, set_gid(options->runner_uid)) ||
             failed(call, STAGE_UID, set_uid(options->runner_uid)) ||
             failed(call, STAGE_RUNNER, set_capabilities(needed)) ||
             failed(call, STAGE_RUNNER, sys_set_signal_mask(~UINT64_C(0))) ||
             (call->terminal && failed(call, STAGE_TERMINAL, open_terminal(options, call->terminal))) ||
             /* Taking root's uid and giving it back sets and clears the effective ones. */
             (call->terminal && failed(call, STAGE_RUNNER, set_capabilities(needed))) ||
             /* After the change of uid, which sets it anew. */
             failed(call, STAGE_RUNNER, sys_prctl(PR_SET_DUMPABLE, 0, 0, 0)) ||
             failed(call, STAGE_NNP, sys_prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0)));
}

static long set_limits(const struct limits *limits) {
    for (unsigned i = 0; i < limits->count; i++) {
        struct rlimit64 value = {limits->item[i].value, limits->item[i].value};
        long result = sys_call(__NR_prlimit64, 0, limits->item[i].resource, (long)&value, 0, 0, 0);
        if (result < 0) {
            return result;
        }
    }
    return 0;
}

static long install_filter(struct filter *filter) {
    struct sock_fprog program = {.len = filter->count, .filter = filter->instruction};
    return filter->count == 0 ? 0
                              : sys_call(__NR_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program, 0, 0, 0);
}

static long execute(char **command, char **environment) {
    const char *name = command[0];
    if (strchr(name, '/')) {
        return sys_call(__NR_execve, (long)name, (long)command, (long)environment, 0, 0, 0);
    }
    if (!*name) {
        return -ENOENT;
    }
    char candidate[4096];
    long answer = -ENOENT;
    const char *path = search_path(environment);
    while (search_next(&path, name, candidate, sizeof candidate)) {
        long result = sys_call(__NR_execve, (long)candidate, (long)command, (long)environment, 0, 0, 0);
        if (result == -EACCES) {
            answer = result; /* as execvp(3): a later directory may do, but "denied" is the better reason */
        } else if (result != -ENOENT && result != -ENOTDIR) {
            return result;
        }
    }
    return answer;
}

/* The program's streams, and what else comes with a command that is only known now. */
static bool take_command(struct call *call) {
    struct command *command = call->command;
    long result = command_receive(call->options->command_fd, command);
    if (result == 0) {
        result = -ECANCELED; /* not needed after all */
    }
    const char *word;
    if (result > 0 && run_options_complete(command->words, call->options, &word) != PARSE_OK) {
        result = -EINVAL;
    }
    /* They came in order, at the lowest free numbers: at their own, where nobody else had these. */
    for (int stream = 0; result > 0 && stream < COMMAND_STREAMS; stream++) {
        if (command->stream[stream] == stream) {
            continue;
        }
        long copied = sys_call(__NR_dup3, command->stream[stream], stream, 0, 0, 0, 0);
        result = copied < 0 ? copied : result;
    }
    call->environment = command->variables;
    return !failed(call, STAGE_COMMAND, result);
}

/* The child of a runner that waits: all that does not depend on the command comes before it. */
static void waiting_child(struct call *call) {
    const struct run_options *options = call->options;
    (void)(failed(call, STAGE_SESSION, sys_call(__NR_setsid, 0, 0, 0, 0, 0, 0)) ||
           failed(call, STAGE_DESCRIPTORS, sys_close(options->report_fd)) ||
           failed(call, STAGE_GID, set_gid(options->gid)) || failed(call, STAGE_UID, set_uid(options->uid)) ||
           failed(call, STAGE_CAPABILITIES, set_capabilities(0)) ||
           /* It shares the runner's memory, and has the program's uid while it waits. */
           failed(call, STAGE_RUNNER, sys_prctl(PR_SET_DUMPABLE, 0, 0, 0)) ||
           failed(call, STAGE_FILTER, install_filter(&call->filter)) || !take_command(call) ||
           failed(call, STAGE_DESCRIPTORS, sys_close_range(3, ~0U)) ||
           failed(call, STAGE_RLIMIT, set_limits(&options->limits)) ||
           failed(call, STAGE_CWD, sys_call(__NR_chdir, (long)options->cwd, 0, 0, 0, 0, 0)) ||
           failed(call, STAGE_RUNNER, sys_set_signal_mask(0)) ||
           failed(call, STAGE_EXEC, execute(options->command, call->environment)));
    sys_exit(STATUS_SETUP_FAILED);
}

/* The child, on a stack of its own in the runner's memory. Ends in execve or with the stage that failed. */
static void child(struct call *call) {
    const struct run_options *options = call->options;
    (void)(failed(call, STAGE_SESSION, sys_call(__NR_setsid, 0, 0, 0, 0, 0, 0)) ||
           (call->terminal && failed(call, STAGE_TERMINAL, terminal_take(call->terminal))) ||
           failed(call, STAGE_DESCRIPTORS, sys_close_range(3, ~0U)) ||
           failed(call, STAGE_RLIMIT, set_limits(&options->limits)) ||
           failed(call, STAGE_GROUPS, set_groups(options)) ||
           failed(call, STAGE_GID, set_gid(options->gid)) || failed(call, STAGE_UID, set_uid(options->uid)) ||
           failed(call, STAGE_CAPABILITIES, set_capabilities(0)) ||
           failed(call, STAGE_CWD, sys_call(__NR_chdir, (long)options->cwd, 0, 0, 0, 0, 0)) ||
           failed(call, STAGE_RUNNER, sys_set_signal_mask(0)) ||
           failed(call, STAGE_FILTER, install_filter(&call->filter)) ||
           failed(call, STAGE_EXEC, execute(options->command, call->environment)));
    sys_exit(STATUS_SETUP_FAILED);
}

/* clone(2) as vfork does it: the caller sleeps until the child has exec'd or ended. */
static long spawn(struct call *call) {
    _Alignas(16) char stack[STACK_BYTES];
    long result = __NR_clone;
    long flags = CLONE_VM | CLONE_VFORK | CHILD_SIGNAL;
    register long r10 __asm__("r10") = 0;
    register long r8 __asm__("r8") = 0;
    register void (*entry)(struct call *) __asm__("r12") = call->command ? waiting_child : child;
    register struct call *argument __asm__("r13") = call;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r13, %%rdi\n\t"
                     "call *%%r12\n\t"
                     "ud2\n"
                     "1:"
                     : "+a"(result)
                     : "D"(flags), "S"(stack + STACK_BYTES), "d"(0L), "r"(r10), "r"(r8), "r"(entry),
                       "r"(argument)
                     : "rcx", "r11", "memory");
    return result;
}

/* Whether any child is left, those that have just ended not counted. */
static bool reap_ended(void) {
    int status;
    for (int i = 0; i < REAP_AT_ONCE; i++) {
        long pid = sys_wait_any(&status, WNOHANG);
        if (pid <= 0) {
            return pid != -ECHILD;
        }
    }
    return true;
}

/* Reaps what has ended, up to the leader: true, and how it ended. False, with WNOHANG: the leader still runs.
 */
static bool leader_ended(long leader, int options, int *ret_status) {
    for (;;) {
        long pid = sys_wait_any(ret_status, options);
        if (pid == leader) {
            return true;
        }
        if (pid == 0) {
            return false;
        }
    }
}

/* Until the leader has ended; its wait status. Standard input and output are closed then. */
static int attend(struct call *call, long leader, uint32_t *flags) {
    int status;
    bool ended = false;
    if (call->terminal) {
        while (!(ended = leader_ended(leader, WNOHANG, &status)) && terminal_carry(call->terminal)) {
        }
        *flags |= terminal_drain(call->terminal) ? 0 : REPORT_OUTPUT_CUT;
        terminal_close(call->terminal);
    }
    if (!ended) {
        leader_ended(leader, 0, &status);
    }
    return status;
}

/* Until no child is left. */
static void reap(void) {
    int status;
    long pid;
    do {
        pid = sys_wait_any(&status, 0);
    } while (pid > 0 || pid == -EINTR);
}

/* Which of its children is the program is told to whoever lists the processes, who can't see it otherwise. */
static void name_leader(long leader) {
    struct line name = {.length = 0};
    line_text(&name, "run:");
    line_number(&name, leader);
    name.text[name.length] = '\0';
    sys_prctl(PR_SET_NAME, (unsigned long)name.text, 0, 0);
}

static int give_up(const struct call *call, int report_fd) {
    send_report(report_fd, REPORT_SETUP_FAILED, call->stage, (int)-call->error, 0);
    return STATUS_SETUP_FAILED;
}

static int usage(const char *word, const char *reason) {
    struct line line = {.length = 0};
    line_text(&line, "run: ");
    line_quote(&line, word);
    line_text(&line, ": ");
    line_text(&line, reason);
    line_write(&line, 2);
    return STATUS_SETUP_FAILED;
}

/* A call whose end nobody can hear of is not started. */
static bool can_report(int fd) {
    long flags = sys_fcntl(fd, F_GETFL, 0);
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && !(flags & O_PATH);
}

int guest_main(char **argv, char **environment) {
    int report_fd = run_options_report_fd(argv);
    if (!can_report(report_fd)) {
        return usage("--report-fd", "not a descriptor open for writing");
    }
    struct run_options options;
    struct call call;
    struct terminal terminal;
    struct command command;
    call.options = &options;
    call.environment = environment;
    call.terminal = NULL;
    call.command = NULL;
    call.stage = STAGE_NONE;
    call.filter.count = 0;
    const char *word;
    enum parse_result parsed = run_options_parse(argv, &options, &word);
    if (parsed != PARSE_OK) {
        failed(&call, STAGE_ARGUMENT, -EINVAL);
        usage(word, parse_result_to_string(parsed));
        return give_up(&call, report_fd);
    }
    if (options.filter_fd >= 0 &&
        failed(&call, STAGE_FILTER_READ, read_filter(options.filter_fd, &call.filter))) {
        return give_up(&call, report_fd);
    }
    if (options.terminal_fd >= 0) {
        call.terminal = &terminal;
    }
    if (options.command_fd >= 0) {
        call.command = &command;
    }
    if (!become_runner(&call)) {
        return give_up(&call, report_fd);
    }
    long leader = spawn(&call);
    if (failed(&call, STAGE_SPAWN, leader)) {
        return give_up(&call, report_fd);
    }
    if (call.stage != STAGE_NONE) {
        int status;
        sys_wait_any(&status, 0);
        return give_up(&call, report_fd);
    }
    name_leader(leader);
    set_capabilities(0); /* removing cannot fail */
    /* The runner must not hold the program's streams open: their reader waits for end of file. */
    if (call.terminal) {
        sys_close(2);
    } else {
        sys_close_range(0, (unsigned)report_fd - 1);
        sys_close_range((unsigned)report_fd + 1, ~0U);
    }
    uint32_t flags = 0;
    int status = attend(&call, leader, &flags);
    flags |= reap_ended() ? REPORT_REMAINING : 0;
    send_report(report_fd, REPORT_LEADER_EXITED, STAGE_NONE, status, flags);
    reap();
    return 0;
}

/*
 * sweep: many system calls, one after another, and the raw answer of each. It is brought into a sandbox by
 * whoever proves a call filter; no sandbox has it otherwise.
 *
 *   sweep fork|alone syscall|int80 NUMBER[:ARGUMENT,…]…
 *
 * NUMBER is what goes into rax, with bit 30 for x32. An ARGUMENT is a word as probe takes it, or a letter:
 * p a path, n a name, b 4096 zero bytes, s their number, d AT_FDCWD, m -1, i the own process id. Those left
 * out are 0.
 *
 * One line for each: `NUMBER result=…`, `NUMBER errno=NAME/number`, or of one that gave no answer `NUMBER
 * signal=…`, `exited=…`, `stopped=…` or `blocked`; `done COUNT` at the end. After a call that was neither
 * refused (EXDEV) nor missing (ENOSYS) a process is another than before, and makes no further one. `fork`:
 * children make the calls, each as many as it may, for 250 ms at most. `alone`: this process makes them, for
 * where there is no fork; whoever started it sees how it ended, and starts it again with what is left.
 */
#include "../common/parse.h"
#include "line.h"
#include "start.h"
#include "sys.h"

#include <linux/mman.h>
#include <stdbool.h>
#include <string.h>

enum {
    STATUS_DONE = 0,
    STATUS_USAGE = 2,
    STATUS_CANNOT_FORK = 3,
    ARGUMENTS = 6,
    ATTEMPTS_MAX = 2048,
    SCRATCH_BYTES = 4096,
    CHILD_SIGNAL = 17, /* SIGCHLD */
    KILL_SIGNAL = 9,   /* SIGKILL */
    STOPPED = 0x7f,    /* low byte of a wait status */
    PATIENCE_NS = 250000000,
};

struct attempt {
    long number;
    unsigned own; /* bit I: argument I is the process id of whoever makes the call */
    long argument[ARGUMENTS];
};

/* What a child tells its parent, in memory that both map. */
struct board {
    volatile uint32_t at; /* the attempt under way */
    volatile bool answered;
    volatile long answer[ATTEMPTS_MAX];
};

static long call(bool int80, const struct attempt *try) {
    long a[ARGUMENTS];
    for (unsigned i = 0; i < ARGUMENTS; i++) {
        a[i] = try->own >> i & 1 ? sys_call(__NR_getpid, 0, 0, 0, 0, 0, 0) : try->argument[i];
    }
    if (!int80) {
        return sys_call(try->number, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(try->number), "b"(a[0]), "c"(a[1]), "d"(a[2]), "S"(a[3]), "D"(a[4])
                     : "r8", "r9", "r10", "r11", "memory");
    return result;
}

static bool makes_children(bool int80, long number) {
    return !int80 &&
           (number == __NR_fork || number == __NR_vfork || number == __NR_clone || number == __NR_clone3);
}

/* Neither refused nor missing: whoever made it may be another by now. */
static bool got_through(long answer) {
    return answer != -EXDEV && answer != -ENOSYS;
}

static void say(long number, const char *what, long value) {
    struct line line = {.length = 0};
    line_number(&line, number);
    line_text(&line, " ");
    line_text(&line, what);
    if (value >= 0) {
        line_number(&line, value);
    }
    line_write(&line, 1);
}

static void say_answer(long number, long answer) {
    struct line line = {.length = 0};
    bool is_error = answer < 0 && answer >= -4095;
    line_number(&line, number);
    line_text(&line, is_error ? " errno=" : " result=");
    if (is_error) {
        line_text(&line, errno_name((int)-answer));
        line_text(&line, "/");
    }
    line_number(&line, is_error ? -answer : answer);
    line_write(&line, 1);
}

static int say_done(long count) {
    struct line line = {.length = 0};
    line_text(&line, "done ");
    line_number(&line, count);
    return line_write(&line, 1) < 0 ? STATUS_CANNOT_FORK : STATUS_DONE;
}

static void make_one(bool int80, const struct attempt *try, volatile long *ret_answer) {
    long answer = call(int80, try);
    if (answer == 0 && makes_children(int80, try->number)) {
        sys_exit(0); /* the child, perhaps on its parent's stack */
    }
    *ret_answer = answer;
}

static int sweep_alone(bool int80, const struct attempt *tries, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        volatile long answer = 0;
        make_one(int80, &tries[i], &answer);
        say_answer(tries[i].number, answer);
        if (got_through(answer)) {
            return STATUS_DONE;
        }
    }
    return say_done(count);
}

static _Noreturn void child(bool int80, const struct attempt *tries, uint32_t count, struct board *board) {
    while (board->at < count) {
        board->answered = false;
        make_one(int80, &tries[board->at], &board->answer[board->at]);
        board->answered = true;
        if (got_through(board->answer[board->at])) {
            break;
        }
        board->at++;
    }
    sys_exit(0);
}

/* The wait status, or -1 of one that did not end in time and was killed. */
static int wait_for(long pid, const struct board *board) {
    const uint64_t children = signal_bit(CHILD_SIGNAL);
    const struct __kernel_timespec patience = {.tv_sec = 0, .tv_nsec = PATIENCE_NS};
    for (;;) {
        int status = 0;
        if (sys_call(__NR_wait4, pid, (long)&status, WNOHANG | WUNTRACED | __WALL, 0, 0, 0) == pid) {
            if ((status & 0xff) != STOPPED) {
                return status;
            }
        } else {
            uint32_t at = board->at;
            long signal =
                sys_call(__NR_rt_sigtimedwait, (long)&children, 0, (long)&patience, sizeof children, 0, 0);
            if (signal != -EAGAIN || at != board->at) {
                continue;
            }
            status = -1;
        }
        sys_call(__NR_kill, pid, KILL_SIGNAL, 0, 0, 0, 0);
        int ignored;
        sys_call(__NR_wait4, pid, (long)&ignored, __WALL, 0, 0, 0);
        return status;
    }
}

static void say_end(long number, int status) {
    if (status == -1) {
        say(number, "blocked", -1);
    } else if ((status & 0xff) == STOPPED) {
        say(number, "stopped=", status >> 8 & 0xff);
    } else if (status & 0x7f) {
        say(number, "signal=", status & 0x7f);
    } else {
        say(number, "exited=", status >> 8 & 0xff);
    }
}

static int sweep_by_children(bool int80, const struct attempt *tries, uint32_t count) {
    long place = sys_call(__NR_mmap, 0, sizeof(struct board), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place < 0 && place >= -4095) {
        return STATUS_CANNOT_FORK;
    }
    struct board *board = (struct board *)place;
    sys_set_signal_mask(signal_bit(CHILD_SIGNAL));
    for (uint32_t said = 0; said < count;) {
        board->at = said;
        board->answered = false;
        long pid = sys_call(__NR_fork, 0, 0, 0, 0, 0, 0);
        if (pid == 0) {
            child(int80, tries, count, board);
        }
        if (pid < 0) {
            return STATUS_CANNOT_FORK;
        }
        int status = wait_for(pid, board);
        for (; said < board->at && said < count; said++) {
            say_answer(tries[said].number, board->answer[said]);
        }
        if (said < count) {
            if (board->answered) {
                say_answer(tries[said].number, board->answer[said]);
            } else {
                say_end(tries[said].number, status);
            }
            said++;
        }
    }
    return say_done(count);
}

static bool parse_argument(char *text, const char *scratch, long *ret) {
    static const char PATH[] = "/tmp";
    static const char NAME[] = "none";
    uint64_t value;
    if (text[0] && !text[1]) {
        switch (text[0]) {
        case 'p':
            *ret = (long)PATH;
            return true;
        case 'n':
            *ret = (long)NAME;
            return true;
        case 'b':
            *ret = (long)scratch;
            return true;
        case 's':
            *ret = SCRATCH_BYTES;
            return true;
        case 'd':
            *ret = AT_FDCWD;
            return true;
        case 'm':
            *ret = -1;
            return true;
        default:
            break;
        }
    }
    if (parse_word(text, &value) != PARSE_OK) {
        return false;
    }
    *ret = (long)value;
    return true;
}

/* `word` is cut at its separators. */
static bool parse_attempt(char *word, const char *scratch, struct attempt *ret) {
    *ret = (struct attempt){.number = 0};
    char *arguments = strchr(word, ':');
    if (arguments) {
        *arguments++ = '\0';
    }
    uint64_t number;
    if (parse_word(word, &number) != PARSE_OK) {
        return false;
    }
    ret->number = (long)number;
    for (unsigned i = 0; arguments; i++) {
        char *next = strchr(arguments, ',');
        if (next) {
            *next++ = '\0';
        }
        if (i == ARGUMENTS) {
            return false;
        }
        if (strcmp(arguments, "i") == 0) {
            ret->own |= 1U << i;
        } else if (!parse_argument(arguments, scratch, &ret->argument[i])) {
            return false;
        }
        arguments = next;
    }
    return true;
}

static int usage(void) {
    static const char TEXT[] = "usage: sweep fork|alone syscall|int80 NUMBER[:ARGUMENT,…]…\n";
    write_all(2, TEXT, sizeof TEXT - 1);
    return STATUS_USAGE;
}

int guest_main(char **argv, char **environment) {
    (void)environment;
    char scratch[SCRATCH_BYTES];
    struct attempt tries[ATTEMPTS_MAX];
    uint32_t count = 0;
    if (!argv[0] || !argv[1] || !argv[2] || !argv[3]) {
        return usage();
    }
    bool forks = strcmp(argv[1], "fork") == 0, int80 = strcmp(argv[2], "int80") == 0;
    if ((!forks && strcmp(argv[1], "alone") != 0) || (!int80 && strcmp(argv[2], "syscall") != 0)) {
        return usage();
    }
    memset(scratch, 0, sizeof scratch);
    for (char **word = argv + 3; *word; word++) {
        if (count == ATTEMPTS_MAX || !parse_attempt(*word, scratch, &tries[count++])) {
            return usage();
        }
    }
    return forks ? sweep_by_children(int80, tries, count) : sweep_alone(int80, tries, count);
}

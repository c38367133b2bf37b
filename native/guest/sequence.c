/*
 * sequence: makes sequences of system calls that a host thought up (sequence.h), each in a child of its own.
 *
 *   sequence < HEAD-AND-SEQUENCES > RECORDS
 *
 * The child is what may be harmed: it has no descriptor of ours, is its own session, and dies of its timer,
 * or of our patience where it got rid of that. Its results stand in memory that both see, outside of what a
 * sequence can name, so that those of a child that was killed are known up to there.
 *
 * It runs in a sandbox or not at all: what it is told to do would be the end of a host.
 *
 * Exit status: 0 at the end of the input, 1 when something we need failed, 2 for input that is no sequence, 3
 * where this is no sandbox.
 */
#include "sequence.h"
#include "line.h"
#include "start.h"
#include "sys.h"

#include <linux/mman.h>
#include <string.h>

enum {
    STATUS_FAILED = 1,
    STATUS_INPUT = 2,
    STATUS_PLACE = 3,
    PROTECTION = 3, /* PROT_READ | PROT_WRITE */
    KILLED = 9,     /* SIGKILL */
    CHILD_SIGNAL = 17,
    POOL = 3, /* the first descriptor of the pool */
};

/* What parent and child share. */
struct results {
    uint32_t made;
    uint32_t done;
    int64_t value[SEQUENCE_CALLS];
};

struct work {
    struct sequence sequence;
    struct sequence_poke poke[SEQUENCE_POKES];
    struct sequence_call call[SEQUENCE_CALLS];
    unsigned char image[SEQUENCE_IMAGE];
};

struct timer {
    int64_t interval_s;
    int64_t interval_us;
    int64_t value_s;
    int64_t value_us;
};

static unsigned char *const ARENA = (unsigned char *)SEQUENCE_ARENA;
static const uint64_t *const LANDING = (const uint64_t *)(SEQUENCE_ARENA + SEQUENCE_IMAGE);

static void *mapped(unsigned long address, size_t size, int flags) {
    long result = sys_call(__NR_mmap, (long)address, (long)size, PROTECTION, MAP_ANONYMOUS | flags, -1, 0);
    return result < 0 && result >= -4095 ? NULL : (void *)result;
}

/* 1: all of it; 0: the end came first, before any byte; negative: an error, or the end in the midst. */
static int take(void *to, size_t size) {
    size_t got = 0;
    while (got < size) {
        long result = sys_read(0, (char *)to + got, size - got);
        if (result == -EINTR) {
            continue;
        }
        if (result <= 0) {
            return result == 0 && got == 0 ? 0 : -1;
        }
        got += (size_t)result;
    }
    return 1;
}

/* Descriptors that every child has, from 3 on; arena.py knows them. What can't be opened moves those behind
 * it. */
static void open_pool(void) {
    enum { UNIX = 1, INET = 2, NETLINK = 16, STREAM = 1, DATAGRAM = 2, RAW = 3, NONBLOCK = 04000 };
    static const char *const PATHS[] = {"/workspace", "/",           "/proc/self",       "/tmp",
                                        "/dev",       "/etc/passwd", "/proc/self/ns/net"};
    int pair[2];
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        sys_call(__NR_openat, AT_FDCWD, (long)PATHS[i], O_RDONLY | O_NONBLOCK, 0, 0, 0);
    }
    sys_call(__NR_openat, AT_FDCWD, (long)"/workspace/data", O_RDWR | O_CREAT | O_NONBLOCK, 0600, 0, 0);
    sys_call(__NR_pipe2, (long)pair, O_NONBLOCK, 0, 0, 0, 0);
    sys_call(__NR_socketpair, UNIX, STREAM | NONBLOCK, 0, (long)pair, 0, 0);
    sys_call(__NR_epoll_create1, 0, 0, 0, 0, 0, 0);
    sys_call(__NR_eventfd2, 1, NONBLOCK, 0, 0, 0, 0);
    sys_call(__NR_socket, INET, STREAM | NONBLOCK, 0, 0, 0, 0);
    sys_call(__NR_socket, INET, DATAGRAM | NONBLOCK, 0, 0, 0, 0);
    sys_call(__NR_socket, NETLINK, RAW | NONBLOCK, 0, 0, 0, 0);
    sys_call(__NR_inotify_init1, NONBLOCK, 0, 0, 0, 0, 0);
    sys_call(__NR_timerfd_create, 1, NONBLOCK, 0, 0, 0, 0);
    sys_call(__NR_memfd_create, (long)"pool", 0, 0, 0, 0, 0);
}

static long argument(const struct sequence_call *call, unsigned number, const struct results *results) {
    uint64_t given = call->argument[number];
    return call->earlier >> number & 1 ? (long)results->value[given] : (long)given;
}

/* In the child. Which process or thread comes back from a fork with 0 ends at once, and touches nothing
 * before. */
static _Noreturn void make(const struct work *work, struct results *results) {
    struct timer timer = {.value_us = work->sequence.limit_us};
    sys_close_range(0, POOL - 1);
    sys_call(__NR_setsid, 0, 0, 0, 0, 0, 0);
    sys_call(__NR_setitimer, 0, (long)&timer, 0, 0, 0, 0);
    for (unsigned i = 0; i < work->sequence.calls; i++) {
        const struct sequence_call *call = &work->call[i];
        results->made = i + 1;
        long result = sys_call(call->number, argument(call, 0, results), argument(call, 1, results),
                               argument(call, 2, results), argument(call, 3, results),
                               argument(call, 4, results), argument(call, 5, results));
        if (result == 0 && sequence_forks(call)) {
            sys_call(__NR_exit, 0, 0, 0, 0, 0, 0);
        }
        results->value[i] = result;
        results->done = i + 1;
    }
    sys_exit(0);
}

/* The child's wait status; -1 for one that had to be killed; less where there was no waiting. */
static long await(long child) {
    uint64_t children = signal_bit(CHILD_SIGNAL);
    struct __kernel_timespec patience = {.tv_nsec = SEQUENCE_PATIENCE_US * 1000L};
    int status = 0;
    for (;;) {
        long signal =
            sys_call(__NR_rt_sigtimedwait, (long)&children, 0, (long)&patience, sizeof children, 0, 0);
        long ended = sys_call(__NR_wait4, child, (long)&status, WNOHANG | __WALL, 0, 0, 0);
        if (ended == child) {
            return status;
        }
        if (ended < 0) {
            return ended;
        }
        if (signal != CHILD_SIGNAL && signal != -EINTR) {
            sys_call(__NR_kill, child, KILLED, 0, 0, 0, 0);
            ended = sys_call(__NR_wait4, child, (long)&status, __WALL, 0, 0, 0);
            return ended == child ? -1 : ended;
        }
    }
}

/* Up to the last byte that is not zero, in words. */
static uint32_t landed(void) {
    uint32_t count = SEQUENCE_LANDING / sizeof *LANDING;
    while (count > 0 && LANDING[count - 1] == 0) {
        count--;
    }
    return count * (uint32_t)sizeof *LANDING;
}

static long run(const struct work *work, struct results *results) {
    struct sequence_begun begun = {SEQUENCE_BEGUN, work->sequence.id};
    long written = write_all(1, &begun, sizeof begun);
    if (written < 0) {
        return written;
    }
    memcpy(ARENA, work->image, sizeof work->image);
    memset(ARENA + SEQUENCE_IMAGE, 0, SEQUENCE_LANDING);
    memset(results, 0, sizeof *results);
    for (unsigned i = 0; i < work->sequence.pokes; i++) {
        memcpy(ARENA + work->poke[i].offset, &work->poke[i].value, sizeof work->poke[i].value);
    }
    long child = sys_call(__NR_fork, 0, 0, 0, 0, 0, 0);
    if (child == 0) {
        make(work, results);
    }
    long status = child < 0 ? child : await(child);
    if (status < -1) {
        return status;
    }
    /* Nobody else writes here any more, but what stands here was written by whoever got so far. */
    uint32_t made = results->made <= SEQUENCE_CALLS ? results->made : SEQUENCE_CALLS;
    uint32_t done = results->done <= made ? results->done : made;
    struct sequence_ended ended = {
        SEQUENCE_ENDED, work->sequence.id, (int32_t)status, (uint16_t)made, (uint16_t)done, landed(), 0};
    if ((written = write_all(1, &ended, sizeof ended)) < 0 ||
        (written = write_all(1, results->value, done * sizeof *results->value)) < 0) {
        return written;
    }
    return write_all(1, LANDING, ended.landed);
}

/* A sandbox of ours under gVisor, as its user: each of them alone tells it from a host. */
static bool in_sandbox(void) {
    static const char GVISOR[] = "gvisor";
    char version[256] = {0};
    if (sys_call(__NR_getuid, 0, 0, 0, 0, 0, 0) == 0 ||
        sys_call(__NR_access, (long)"/.opensafe/init", 0, 0, 0, 0, 0) < 0) {
        return false;
    }
    long fd = sys_call(__NR_openat, AT_FDCWD, (long)"/proc/version", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0) {
        return false;
    }
    sys_read((int)fd, version, sizeof version - 1);
    sys_close((int)fd);
    for (const char *at = version; *at; at++) {
        if (strncmp(at, GVISOR, sizeof GVISOR - 1) == 0) {
            return true;
        }
    }
    return false;
}

int guest_main(char **argv, char **environment) {
    (void)argv;
    (void)environment;
    if (!in_sandbox()) {
        return STATUS_PLACE;
    }
    struct work *work = mapped(0, sizeof *work, MAP_PRIVATE);
    struct results *results = mapped(0, sizeof *results, MAP_SHARED);
    struct sequence_head head;
    if (!work || !results ||
        !mapped(SEQUENCE_ARENA, SEQUENCE_IMAGE + SEQUENCE_LANDING, MAP_SHARED | MAP_FIXED_NOREPLACE)) {
        return STATUS_FAILED;
    }
    if (take(&head, sizeof head) != 1 || !sequence_head_valid(&head) ||
        (head.image > 0 && take(work->image, head.image) != 1)) {
        return STATUS_INPUT;
    }
    sys_set_signal_mask(signal_bit(CHILD_SIGNAL));
    open_pool();
    for (;;) {
        struct sequence *sequence = &work->sequence;
        int got = take(sequence, sizeof *sequence);
        if (got == 0) {
            return 0;
        }
        if (got < 0 || sequence->calls > SEQUENCE_CALLS || sequence->pokes > SEQUENCE_POKES ||
            (sequence->pokes > 0 && take(work->poke, sequence->pokes * sizeof *work->poke) != 1) ||
            (sequence->calls > 0 && take(work->call, sequence->calls * sizeof *work->call) != 1) ||
            !sequence_valid(sequence, work->poke, work->call)) {
            return STATUS_INPUT;
        }
        if (run(work, results) < 0) {
            return STATUS_FAILED;
        }
    }
}

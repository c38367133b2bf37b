/*
 * What the executor of system call sequences reads and writes; opensafe/proof/campaign/wire.py is the other
 * end.
 *
 * In: one head and its image, then sequences, each with its pokes and calls. Out: for each sequence a record
 * before its first call and one after its last, so that whoever reads knows which one was under way when all
 * ended. All little-endian.
 */
#ifndef OPENSAFE_SEQUENCE_H
#define OPENSAFE_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SEQUENCE_MAGIC = 0x5153534f, /* "OSSQ" */
    SEQUENCE_BEGUN = 0x4e474542, /* "BEGN" */
    SEQUENCE_ENDED = 0x53444e45, /* "ENDS" */
    SEQUENCE_CALLS = 64,
    SEQUENCE_POKES = 16,
    SEQUENCE_IMAGE = 16384,   /* what pointers of the host's making point to */
    SEQUENCE_LANDING = 16384, /* behind it, empty: what calls leave here is sent back */
    SEQUENCE_ARENA = 0x20000000,
    SEQUENCE_PATIENCE_US = 400000, /* with a child that got rid of its timer: beyond any limit */
};

struct sequence_head {
    uint32_t magic;
    uint32_t image; /* bytes that follow */
};

struct sequence {
    uint32_t id;
    uint16_t calls;
    uint16_t pokes;
    uint32_t limit_us; /* of the whole sequence, under SEQUENCE_PATIENCE_US */
    uint32_t reserved;
};

/* Eight bytes of the image that this sequence has otherwise. */
struct sequence_poke {
    uint64_t offset;
    uint64_t value;
};

/* Bit N of `earlier`: argument N is not a value but the number of an earlier call, whose result is meant. */
struct sequence_call {
    uint32_t number;
    uint32_t earlier;
    uint64_t argument[6];
};

struct sequence_begun {
    uint32_t kind;
    uint32_t id;
};

/* Followed by the results, eight bytes each, and what landed. made: calls that began; done: that came back.
 */
struct sequence_ended {
    uint32_t kind;
    uint32_t id;
    int32_t status; /* wait status of wait4(2); -1: it was still there, and was killed */
    uint16_t made;
    uint16_t done;
    uint32_t landed;
    uint32_t reserved;
};

bool sequence_head_valid(const struct sequence_head *head);

/* Within its limits, and every call means earlier calls only. */
bool sequence_valid(const struct sequence *sequence, const struct sequence_poke *pokes,
                    const struct sequence_call *calls);

/* Whether a call makes a process or a thread, in which it comes back as well. */
bool sequence_forks(const struct sequence_call *call);

#endif

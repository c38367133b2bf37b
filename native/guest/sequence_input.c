#include "sequence.h"

#include <asm/unistd.h>

enum { ARGUMENTS = 6 };

bool sequence_head_valid(const struct sequence_head *head) {
    return head->magic == SEQUENCE_MAGIC && head->image <= SEQUENCE_IMAGE;
}

static bool call_valid(const struct sequence_call *call, uint64_t place) {
    if (call->earlier >> ARGUMENTS) {
        return false;
    }
    for (unsigned i = 0; i < ARGUMENTS; i++) {
        if (call->earlier >> i & 1 && call->argument[i] >= place) {
            return false;
        }
    }
    return true;
}

bool sequence_valid(const struct sequence *sequence, const struct sequence_poke *pokes,
                    const struct sequence_call *calls) {
    if (sequence->calls == 0 || sequence->calls > SEQUENCE_CALLS || sequence->pokes > SEQUENCE_POKES ||
        sequence->limit_us == 0 || sequence->limit_us >= SEQUENCE_PATIENCE_US) {
        return false;
    }
    for (unsigned i = 0; i < sequence->pokes; i++) {
        if (pokes[i].offset > SEQUENCE_IMAGE - sizeof pokes[i].value) {
            return false;
        }
    }
    for (unsigned i = 0; i < sequence->calls; i++) {
        if (!call_valid(&calls[i], i)) {
            return false;
        }
    }
    return true;
}

bool sequence_forks(const struct sequence_call *call) {
    return call->number == __NR_fork || call->number == __NR_vfork || call->number == __NR_clone ||
           call->number == __NR_clone3;
}

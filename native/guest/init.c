/*
 * init: PID 1 of every sandbox. Reaps whatever is left to it and does nothing else.
 *
 * All signals are blocked and only SIGCHLD is ever taken, so nothing inside the sandbox can end it, and with
 * it the sandbox; it sleeps in the kernel between two deaths. A zombie that nobody reaps would count against
 * the sandbox's limit on processes until nothing starts any more.
 */
#include "start.h"
#include "sys.h"

#include <linux/prctl.h>

enum {
    CHILD_SIGNAL = 17, /* SIGCHLD */
    STATUS_CANNOT_WAIT = 70,
};

int guest_main(char **argv, char **environment) {
    (void)argv;
    (void)environment;
    sys_set_signal_mask(~UINT64_C(0));
    sys_prctl(PR_SET_DUMPABLE, 0, 0, 0);
    sys_close_range(3, ~0U);

    uint64_t children = signal_bit(CHILD_SIGNAL);
    for (;;) {
        /* Signals coalesce: one may stand for many deaths. */
        int status;
        while (sys_wait_any(&status, WNOHANG) > 0) {
        }
        long signal = sys_call(__NR_rt_sigtimedwait, (long)&children, 0, 0, sizeof children, 0, 0);
        if (signal < 0 && signal != -EINTR && signal != -EAGAIN) {
            /* A loop that cannot sleep would spin: end the sandbox instead. */
            return STATUS_CANNOT_WAIT;
        }
    }
}

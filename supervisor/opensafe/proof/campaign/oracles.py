"""The thirteen oracles, by number, and what they raise."""

import enum

import msgspec


class Oracle(enum.IntEnum):
    """What must not be seen. All but the last but one are sampled where the guest has no say."""

    CANARY = 1
    NONCE = 2
    FRAME = 3
    ACCEPT = 4
    PROCESS = 5
    POSTURE = 6
    VIOLATION = 7
    HOST = 8
    POLICY = 9
    BOUNDS = 10
    KERNEL = 11
    DEATH = 12
    REMAINS = 13


TITLES = {
    Oracle.CANARY: "a canary of the host's changed",
    Oracle.NONCE: "a nonce of the host's came out of a guest",
    Oracle.FRAME: "a frame left the sandbox",
    Oracle.ACCEPT: "a listener of the host's was reached",
    Oracle.PROCESS: "a process is where none may be",
    Oracle.POSTURE: "a sentry or gofer holds what it did not",
    Oracle.VIOLATION: "the filter around runsc was run into",
    Oracle.HOST: "a setting of the host's changed",
    Oracle.POLICY: "a call was answered otherwise than the policy says",
    Oracle.BOUNDS: "a limit was passed, or a peer starved",
    Oracle.KERNEL: "the kernel complained",
    Oracle.DEATH: "a sandbox ended unasked",
    Oracle.REMAINS: "something was left behind",
}

#: Of which one is no escape: a guest that ends its own sandbox harms itself. It is counted, and told.
HARMLESS = frozenset({Oracle.DEATH})


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What an oracle saw. run: the run it is of; None where it is of a batch as a whole."""

    oracle: Oracle
    what: str
    batch: int = -1
    run: int | None = None

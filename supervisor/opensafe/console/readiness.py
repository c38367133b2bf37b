"""Whether a candidate can be put in force from here, and what to type where it can't."""

import os
import pathlib
import shlex

import msgspec

from opensafe.client import DaemonStatus

from .candidates import Candidate


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """What is known without verifying anything.

    signed: "no", "untrusted" (names a key that the daemon does not trust) or "named" (names one that it does).
    numbered: higher than what is in force. in_force: it is that already. reachable: this process may write where
    bundles are put. sign, put: commands.
    """

    signed: str
    numbered: bool
    in_force: bool
    reachable: bool
    sign: str
    put: str

    @property
    def ready(self) -> bool:
        """Nothing is known that the daemon would refuse it for."""
        return self.signed == "named" and self.numbered and not self.in_force


def readiness(candidate: Candidate, status: DaemonStatus) -> Readiness:
    """Of a candidate that was read."""
    assert candidate.replayed is not None  # noqa: S101 - the caller's condition; for the type checker
    summary = candidate.replayed.summary
    name = pathlib.PurePath(candidate.name).name
    signed = "named" if summary.candidate_key in status.trusted_keys else "untrusted" if summary.candidate_key else "no"
    return Readiness(
        signed=signed,
        numbered=summary.candidate_number > status.bundle_number,
        in_force=candidate.digest == status.bundle_digest,
        reachable=reachable(status),
        sign=signing(name, max(summary.candidate_number, status.bundle_number + 1)),
        put=shlex.join(("opensafe", "policy", "activate", name)),
    )


def reachable(status: DaemonStatus) -> bool:
    """Whether this process may put a file in the daemon's place for bundles."""
    return bool(status.bundle_path) and os.access(pathlib.Path(status.bundle_path).parent, os.W_OK | os.X_OK)


def signing(name: str, number: int) -> str:
    """The command that signs a bundle under a number."""
    return shlex.join(("opensafe", "policy", "sign", name, "--key", "policy.key", "--number", str(number)))

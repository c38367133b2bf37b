"""A probe, what became of it, and the rules that keep a suite of them honest.

A sandbox's own words never decide. What does is evidence from outside of it: what a server got, what passed a link,
what a namespace holds. A probe that did not begin, or did not get to its end, proves nothing; neither does one whose
control, the same attempt where nothing is in its way, did not get out.
"""

import enum
from collections.abc import Callable
from typing import Annotated

import msgspec

from opensafe.proof.world import Event, Packet


class Boundary(enum.StrEnum):
    """What is to be crossed."""

    NETWORK = "network"


class Severity(enum.StrEnum):
    """What a breach would be, in the terms of gVisor's security model; all of these are release blockers."""

    ESCAPE = "escape"
    HOST_LEAK = "host-leak"
    EXFIL = "exfil"
    LATERAL = "lateral"
    HOST_DOS = "host-dos"
    PEER_DOS = "peer-dos"


class Verdict(enum.StrEnum):
    """limit: it gets out, as is documented, and is counted apart."""

    CONTAINED = "contained"
    BREACHED = "breached"
    INCONCLUSIVE = "inconclusive"
    LIMIT = "limit"


class Place(enum.StrEnum):
    """Where a control runs: in a namespace that is routed straight to the world, or in the host's own."""

    PLAIN = "plain"
    HOST = "host"


class Action(enum.StrEnum):
    """What the suite does to the daemon once a probe has begun (delete: afterwards). Such a probe runs alone."""

    NONE = ""
    KILL_ENVOY = "kill-envoy"
    REVOKE = "revoke"
    DELETE = "delete"


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """One run's own part of the world, so that whatever is seen there is of this run.

    nonce: letters and digits that stand in what it sends. sink, private: addresses of the world's network and of its
    trap. six: the sink in IPv6. port: of the listener on the host. front: where a web server is asked without DNS, ""
    if by name. acted_us: when the suite's action was done, UTC microseconds, 0 without.
    """

    nonce: str
    sink: str
    private: str
    six: str
    port: int = 0
    front: str = ""
    acted_us: int = 0


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen from outside during a run, of its way into the world alone.

    packets: those that came in. host: what the host's own listener was sent. gateway: lines on what the gateway's
    namespace holds: its listening ports, its neighbours, its links to sandboxes.
    """

    events: tuple[Event, ...]
    packets: tuple[Packet, ...]
    host: tuple[bytes, ...] = ()
    gateway: tuple[str, ...] = ()


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt.

    attacks: ids of the techniques of MITRE ATT&CK. breach: in words, what the host would see. control: in words, why
    the same must succeed there. program: Python for the guest, behind the prelude (program.py). granted: names that
    the call names and so may reach, with {sink} and {private} for the spelt addresses. found: the breach in the
    evidence, in words, "" where there is none. cue: what a server reads, with the nonce behind it, before the action is
    done. missing: what the evidence must have and has not for the attempt to be a real one, in words; None where its
    beginning says enough. limit: why it gets out by design; "" where it must not.
    """

    id: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{2}-\d{2}[a-z]?$")]
    boundary: Boundary
    title: str
    severity: Severity
    attacks: tuple[str, ...]
    breach: str
    control: str
    program: str
    found: Callable[[Scene, Evidence], str]
    granted: tuple[str, ...] = ()
    place: Place = Place.PLAIN
    action: Action = Action.NONE
    cue: str = ""
    limit: str = ""
    missing: Callable[[Scene, Evidence], str] | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a probe's program, in a guest or as a control.

    began: the host saw it begin. finished: it said that it had tried all. found: the evidence. hints: what it said of
    its attempts, which decides nothing. fault: why it could not run.
    """

    began: bool
    finished: bool
    found: str = ""
    hints: tuple[str, ...] = ()
    fault: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A probe's verdict. layer: what stopped it, as far as its hints tell."""

    id: str
    title: str
    severity: Severity
    attacks: tuple[str, ...]
    verdict: Verdict
    control_breached: bool
    layer: str
    reason: str
    run: Run
    control: Run


_LAYERS = {
    "ConnectionRefusedError": "packet filter: reset",
    "gaierror": "name server: no such name",
    "PermissionError": "sentry: no permission",
    "[Errno 18]": "call filter",
    "SSLEOFError": "gateway: closed in the handshake",
    "SSLZeroReturnError": "gateway: closed in the handshake",
    "ConnectionResetError": "gateway: reset",
    "403": "gateway: 403",
    "404": "gateway: 404",
    "503": "gateway: 503",
    "[Errno 101]": "no route",
    "TimeoutError": "silence",
}


def judge(probe: Probe, run: Run, control: Run) -> Result:
    """The verdict. BREACHED needs evidence alone; CONTAINED needs that everything was tried and the control got out."""
    if run.found:
        verdict = Verdict.LIMIT if probe.limit else Verdict.BREACHED
        reason = f"{run.found}; {probe.limit}" if probe.limit else run.found
    elif run.fault or not (run.began and run.finished):
        verdict = Verdict.INCONCLUSIVE
        reason = run.fault or ("it did not get to its end" if run.began else "the host did not see it begin")
    elif not control.found:
        verdict, reason = Verdict.INCONCLUSIVE, f"the control did not get out: {control.fault or probe.control}"
    else:
        verdict, reason = Verdict.CONTAINED, ""
    layers = {layer: None for hint in run.hints for sign, layer in _LAYERS.items() if sign in hint}
    return Result(
        id=probe.id,
        title=probe.title,
        severity=probe.severity,
        attacks=probe.attacks,
        verdict=verdict,
        control_breached=bool(control.found),
        layer=", ".join(layers),
        reason=reason,
        run=run,
        control=control,
    )

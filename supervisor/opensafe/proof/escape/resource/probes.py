"""The probes of the resource boundary. Those of guests run as calls and in cells, the others against daemons."""

import functools
from typing import Final

from opensafe.proof.escape.probe import Boundary, Severity
from opensafe.proof.escape.trial import Trial

from . import archives, flood, full_disk, guest_rows, output, proxy, requests
from .daemon_rows import Attempts, against
from .daemons import CALLS, SANDBOXES, SESSIONS, Kind
from .guest import Guest

_EXHAUSTION: Final = ("T1499.001",)
_FLOOD: Final = ("T1499.003",)
_HIJACKING: Final = ("T1496",)
_HOST_DOS: Final = Severity.HOST_DOS
_UNLIMITED: Final = (
    "the same program in a group that limits nothing, within the bounds of the whole suite (configuration form)"
)
_UNSIZED: Final = "the same program, where the sandbox's file systems have no size (configuration form)"


_row: Final = functools.partial(Trial, boundary=Boundary.RESOURCE)


def _tried(guest: Guest) -> Attempts:
    return {"attempts": (guest.shipped, guest.undecided, guest.unlimited), "weak": guest.control}


PROBES: Final = (
    _row(
        id="RS-01",
        title="300 forks, beside a neighbour",
        severity=_HOST_DOS,
        attacks=_EXHAUSTION,
        breach="more tasks in the sandbox's group than its limit, or a neighbour that stands still",
        control=_UNLIMITED,
        **_tried(guest_rows.FORKS),
    ),
    _row(
        id="RS-02",
        title="300 idle threads, and 8 in each of 90 processes, beside a neighbour",
        severity=_HOST_DOS,
        attacks=_EXHAUSTION,
        breach="more tasks in the sandbox's group than its limit, or a neighbour that stands still",
        control=_UNLIMITED,
        **_tried(guest_rows.THREADS),
    ),
    _row(
        id="RS-03",
        title="memory touched beyond the limit, beside a neighbour",
        severity=_HOST_DOS,
        attacks=_EXHAUSTION,
        breach="a peak of the group's memory above its limit, or a neighbour that ends",
        control=_UNLIMITED,
        **_tried(guest_rows.MEMORY),
    ),
    _row(
        id="RS-04",
        title="temporary files and shared memory filled",
        severity=_HOST_DOS,
        attacks=_EXHAUSTION,
        breach="more memory files of the sandbox on the host than both may hold",
        control=_UNSIZED,
        **_tried(guest_rows.TEMPORARY),
    ),
    _row(
        id="RS-06",
        title="the workspace filled",
        severity=_HOST_DOS,
        attacks=_EXHAUSTION,
        breach="more memory files of the sandbox on the host than it may hold",
        control=_UNSIZED,
        **_tried(guest_rows.WORKSPACE),
    ),
    _row(
        id="RS-07",
        title="20,000 empty files and 500 nested directories in the workspace",
        severity=_HOST_DOS,
        attacks=_EXHAUSTION,
        breach="files on the host, named or held open, by the hundred",
        control="the same program in a directory of the host's that is mounted into the sandbox (configuration form)",
        **_tried(guest_rows.INODES),
    ),
    _row(
        id="RS-09",
        title="four processes spin, beside a neighbour",
        severity=Severity.PEER_DOS,
        attacks=_HIJACKING,
        breach="one and a half times the group's share of the processors, or a neighbour that stands still",
        control=_UNLIMITED,
        **_tried(guest_rows.CORES),
    ),
    _row(
        id="RS-10",
        title="output without an end, read and unread",
        severity=_HOST_DOS,
        attacks=_FLOOD,
        breach="40 MiB more resident in the front, or 1 MiB in its log and traces",
        control="the same against a daemon that keeps all output",
        **against(output.endless),
    ),
    _row(
        id="RS-11",
        title="a line of 16 MiB, NULs, control characters, no UTF-8, and lines as logs have them",
        severity=Severity.INTEGRITY,
        attacks=("T1565.001",),
        breach="such a line or character in a log, one that does not verify, a front that ends, or lost output",
        control="the same against a daemon that logs what it reads as lines",
        **against(output.forged),
    ),
    _row(
        id="RS-12",
        title=f"programs on terminals, {CALLS} of which are allowed",
        severity=_HOST_DOS,
        attacks=_FLOOD,
        breach="more of them in the sentry's list",
        control="the same against a daemon without the caps of front and warden",
        alone=True,
        **against(flood.programs, behind="the front's cap"),
    ),
    _row(
        id="RS-13",
        title="trees: 128 MiB out of a workspace of 8, 100,002 members in, and a size that is not true",
        severity=_HOST_DOS,
        attacks=_FLOOD,
        breach="more on the host than its caller takes, or a member beyond the cap in the sandbox",
        control="the same with a client and a daemon that count nothing",
        **against(archives.download, archives.upload),
    ),
    _row(
        id="RS-15",
        title="a tree that ignores signals past its deadline, part of it in a session of its own",
        severity=_HOST_DOS,
        attacks=_HIJACKING,
        breach="a process of it in the sentry's list after deadline and grace",
        control="the same against a warden that sends no more than SIGTERM",
        **against(flood.deadline),
    ),
    _row(
        id="RS-16",
        title="960 connections to the gateway, with CONNECT, half a TLS handshake and nothing",
        severity=Severity.PEER_DOS,
        attacks=("T1498",),
        breach="more descriptors at the proxy than one sandbox may have, or no page for the neighbour",
        control="the same against a daemon without the caps of packet rules and helper",
        **against(proxy.connections),
    ),
    _row(
        id="RS-17",
        title="messages that are huge or deep, metadata, a map of a million keys",
        severity=_HOST_DOS,
        attacks=_FLOOD,
        breach="96 MiB more resident in the front, or one that is too large and not refused for it",
        control="the same against a daemon without its limits",
        **against(requests.messages),
    ),
    _row(
        id="RS-18",
        title="a call that policy takes too long to judge",
        severity=Severity.ESCAPE,
        attacks=(*_FLOOD, "T1562"),
        breach="an allow on record, a start in the ledger, or an evaluation far beyond its deadline",
        control="the same against a daemon that takes no verdict for an allow",
        **against(requests.slow),
    ),
    _row(
        id="RS-19",
        title="a call when the audit log's disk is full",
        severity=Severity.INTEGRITY,
        attacks=("T1562",),
        breach="output of a call that is on no record",
        control="the same against a front that goes on without a record and a warden that asks for none",
        **against(full_disk.runs_unrecorded, behind="the front's own stop", weak=Kind.RECORDLESS),
    ),
    _row(
        id="RS-20",
        title=f"sessions, {SESSIONS} of which are allowed, and sandboxes, {SANDBOXES} of which are",
        severity=_HOST_DOS,
        attacks=_FLOOD,
        breach="more sessions on record, or more groups of sandboxes on the host",
        control="the same against a daemon without the caps of front and warden",
        alone=True,
        **against(flood.sessions, flood.sandboxes, behind="the front's cap"),
    ),
)

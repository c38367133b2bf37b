"""What reports come to on a page: rows by family, by boundary, by layer, by target; and rates over time."""

import collections
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from .report_forms import Both, Half, Mutant, Probe, RedTeam, Share
from .reports import Report

#: Reports of a trend, the newest.
TREND_MAX: Final = 60
_TWINS: Final = "twins of "

#: What stopped an attempt, by how its words begin; the first that fits. Probes say it in words of their own.
_LAYERS: Final = (
    ("policy", ("policy", "block", "review", "default.deny")),
    ("requests", ("refused", "normalizer", "client", "not found by owner", "approval bound", "one call an id")),
    ("call filter", ("call filter",)),
    ("gateway", ("gateway",)),
    ("packets", ("packet filter", "the gateway's packet rules", "no route")),
    ("names", ("name server",)),
    ("files", ("file helper",)),
    ("monitor", ("monitor",)),
    ("sandbox", ("not there", "no such", "no permission", "the guest", "permission denied", "the sentry", "the gofer")),
    ("sandbox", ("read-only", "not supported", "not implemented", "execve")),
    ("limits", ("the group's", "the call's", "not_started", "no more", "the unpacking's", "the file system's")),
    ("limits", ("a workspace in", "the output's", "too many", "the host's own count", "the server's own limits")),
    ("limits", ("the sweep", "the evaluation's deadline")),
    ("host", ("host guard", "warden", "as expected", "the specification", "the settings", "runsc's", "no hook")),
    ("record", ("the verifier", "the audit log", "masked", "canonical json", "bytes as bytes")),
)
OTHER: Final = "other"
LAYERS: Final = (*dict(_LAYERS), OTHER)


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A row: attacks stopped; honest work stopped beside them, None where none is of this family."""

    name: str
    attacks: Share | None
    honest: Share | None


class Boundary(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the escape suite, and its probes."""

    name: str
    counts: dict[str, int]
    controls: int
    probes: tuple[Probe, ...]


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """How many probes a layer stopped as shipped, and (opened) with the layers before it opened on purpose."""

    name: str
    shipped: int
    opened: int


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Faults of a fuzz target."""

    name: str
    found: int
    of: int


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """A rate over reports, the oldest first, with their times and names."""

    rate: str
    values: tuple[float, ...]
    reports: tuple[Report, ...]
    goal: float | None

    @property
    def low(self) -> float:
        """Where its scale begins."""
        return min((*self.values, *self._goal))

    @property
    def high(self) -> float:
        """Where it ends."""
        return max((*self.values, *self._goal))

    @property
    def _goal(self) -> tuple[float, ...]:
        return () if self.goal is None else (self.goal,)


def families(found: RedTeam) -> list[Family]:
    """Of single calls and sessions together: attacks by family, with the honest sessions of the same."""
    twins = {name.removeprefix(_TWINS): one for name, one in found.honest.items() if name.startswith(_TWINS)}
    names = [*found.families, *(name for name in twins if name not in found.families)]
    return [Family(name=name, attacks=found.families.get(name), honest=twins.get(name)) for name in names]


def played(found: dict[str, Both]) -> list[Family]:
    """Of scenarios."""
    return [Family(name=name, attacks=one.stopped, honest=one.falsely_stopped) for name, one in found.items()]


def honest(found: RedTeam) -> list[Family]:
    """Honest calls, by tool."""
    return [
        Family(name=name, attacks=None, honest=one) for name, one in found.honest.items() if not name.startswith(_TWINS)
    ]


def missed(found: RedTeam) -> tuple[list[str], list[str]]:
    """Attacks that came through, and honest work that was stopped, by id; without those that are held out."""
    part = found.dev or Half()
    return (
        [*found.missed, *(one.id for one in part.misses if one.kind == "malicious")],
        [*found.falsely, *(one.id for one in part.misses if one.kind == "benign")],
    )


def trend(reports: Sequence[Report], rate: str, goal: str = "") -> Trend | None:
    """A rate over reports of one kind (the newest first); None where less than two have it."""
    have = [one for one in reports if one.number(rate) is not None][:TREND_MAX][::-1]
    if len(have) < 2:
        return None
    return Trend(
        rate=rate,
        values=tuple(one.number(rate) or 0.0 for one in have),
        reports=tuple(have),
        goal=have[-1].number(goal) if goal else None,
    )


def boundaries(probes: Iterable[Probe]) -> list[Boundary]:
    """By boundary, in the order of the suite."""
    by: dict[str, list[Probe]] = {}
    for probe in probes:
        by.setdefault(probe.boundary, []).append(probe)
    return [
        Boundary(
            name=name,
            counts=dict(collections.Counter(one.verdict for one in some)),
            controls=sum(one.control_breached for one in some),
            probes=tuple(some),
        )
        for name, some in by.items()
    ]


def layers(probes: Iterable[Probe]) -> list[Layer]:
    """What stopped the probes that were contained, most first."""
    shipped: collections.Counter[str] = collections.Counter()
    opened: collections.Counter[str] = collections.Counter()
    for probe in probes:
        if probe.verdict != "contained":
            continue
        shipped.update({name for run in probe.runs if not run.opened for name in stopped_by(run.layer)})
        opened.update({name for run in probe.runs if run.opened for name in stopped_by(run.layer)})
    names = sorted({*shipped, *opened}, key=lambda name: (-shipped[name] - opened[name], LAYERS.index(name)))
    return [Layer(name=name, shipped=shipped[name], opened=opened[name]) for name in names]


def stopped_by(layer: str) -> frozenset[str]:
    """The layers that a run's words name; OTHER where it is none of those known, nothing where it says nothing."""
    words = [word.strip().lower() for part in layer.split(";") for word in part.split(",") if word.strip()]
    known = {_layer(word) for word in words} - {""}
    return frozenset(known or ({OTHER} if words else ()))


def _layer(word: str) -> str:
    return next((name for name, begins in _LAYERS if word.startswith(begins)), "")


def targets(mutants: Iterable[Mutant]) -> list[Target]:
    """By target."""
    of: collections.Counter[str] = collections.Counter()
    found: collections.Counter[str] = collections.Counter()
    for one in mutants:
        of[one.target] += 1
        found[one.target] += not one.why
    return [Target(name=name, found=found[name], of=of[name]) for name in of]

"""A row as a trial: its shots are fired at one daemon, and then it is looked at what became of each.

Looked at is the audit log on the disk, for the verdict and the rule behind it, and the sandbox through the file API,
for the effect. A shot that is on nobody's record proves nothing, nor does a row whose harmless twins did not run.
"""

import collections
import functools
from collections.abc import Sequence
from typing import Any, Final

from opensafe.errors import OpenSafeError
from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Trial

from .ground import Box, Ground, Post, Tried
from .shot import Shot, Sign

_MOST: Final = 6


def row(
    id: str,  # noqa: A002 - the probe's field
    title: str,
    shots: Sequence[Shot],
    twins: Sequence[Shot],
    *,
    weak: str,
    control: str,
    breach: str = "the marker is there, or the verdict was allow",
    attacks: tuple[str, ...] = (),
    severity: Severity = Severity.INTEGRITY,
    at: str = "",
    limit: str = "",
) -> Trial:
    """The probe of a table. at: the daemon that has to hold. weak: the daemon whose check is gone."""
    return Trial(
        id=id,
        boundary=Boundary.POLICY,
        title=title,
        severity=severity,
        attacks=attacks,
        breach=breach,
        control=control,
        limit=limit,
        attempts=(functools.partial(_attempt, id, tuple(shots), tuple(twins), at),),
        weak=functools.partial(_control, id, tuple(shots), tuple(twins), weak),
    )


async def _attempt(id: str, shots: tuple[Shot, ...], twins: tuple[Shot, ...], at: str, ground: Ground) -> Run:  # noqa: A002 - the probe's field
    post = await ground.post(at)
    async with post.box(id) as box:
        await _twins(box, twins)
        tried = [await box.fire(shot) for shot in shots]
        effects = await _effects(box, tried)
        records = _verdicts(post, box)
    found = [
        f"{_told(one)}: {'its effect is there' if one.name in effects else 'it was allowed'}"
        for one in tried
        if one.name in effects or (_by_verdict(one) and _action(records.get(one.call_id)) == "allow")
    ]
    return Run(
        began=True,
        finished=all(one.refused or one.call_id in records for one in tried),
        found="; ".join(found[:_MOST]),
        layer=_layers(tried, records),
        hints=(
            f"{len(tried)} calls, {len(twins)} twins",
            *(f"{_told(one)}: {one.refused}" for one in tried if one.refused),
        ),
    )


async def _control(id: str, shots: tuple[Shot, ...], twins: tuple[Shot, ...], weak: str, ground: Ground) -> Run:  # noqa: A002 - the probe's field
    by_daemon: dict[str, list[Shot]] = {}
    for shot in shots:
        if not (shot.inert or shot.alone):
            by_daemon.setdefault(shot.weak or weak, []).append(shot)
    idle: list[str] = []
    out = 0
    for daemon, some in by_daemon.items():
        async with (await ground.post(daemon)).box(id) as box:
            await _twins(box, twins)
            tried = [await box.fire(shot) for shot in some]
            effects = await _effects(box, tried)
        out += sum(one.name in effects for one in tried)
        idle += [f"{_told(one)}: {one.refused or 'no effect'}" for one in tried if one.name not in effects]
    return Run(
        began=bool(out),
        finished=not idle,
        found="" if idle else f"{out} of {out} calls had their effect",
        hints=(f"daemons: {', '.join(by_daemon)}", *idle),
        fault="; ".join(idle),
    )


async def _twins(box: Box, twins: tuple[Shot, ...]) -> None:
    """The harmless calls. Raises OpenSafeError where one has no effect."""
    tried = [await box.fire(twin) for twin in twins]
    if idle := [one for one in tried if one.refused]:
        raise OpenSafeError(f"a harmless twin was refused: {idle[0].refused}", value=_told(idle[0]))
    effects = await _effects(box, tried)
    if idle := [one for one in tried if one.name not in effects]:
        raise OpenSafeError("a harmless twin had no effect", value=_told(idle[0]))


async def _effects(box: Box, tried: Sequence[Tried]) -> frozenset[str]:
    """The markers whose effect is there."""
    names = await box.names()
    there = set()
    for one in tried:
        if one.shot.sign is Sign.OUTPUT:
            seen = one.name.encode() in one.output
        elif one.shot.look:
            seen = one.name in await box.text(one.shot.look.replace("@N", one.name))
        else:
            seen = any(name == one.name or name.startswith(f"{one.name}.") for name in names)
        if seen:
            there.add(one.name)
    return frozenset(there)


def _verdicts(post: Post, box: Box) -> dict[str, dict[str, Any]]:
    """The decision or refusal of each call, by its id: the first, since none is approved here."""
    found: dict[str, dict[str, Any]] = {}
    for record in post.records(box.session):
        if record["kind"] in ("decision", "refusal"):
            found.setdefault(record["call_id"], record)
    return found


def _by_verdict(one: Tried) -> bool:
    return not (one.shot.inert or one.shot.by_effect)


def _action(record: dict[str, Any] | None) -> str:
    return str(record["result"]["action"]) if record and record["kind"] == "decision" else ""


def _layers(tried: Sequence[Tried], records: dict[str, dict[str, Any]]) -> str:
    """The rules that stopped the calls, and how many each."""
    counted: collections.Counter[str] = collections.Counter()
    for one in tried:
        ids = (*(one.before if one.shot.by_effect else ()), one.call_id)
        stopped = [record for record in map(records.get, ids) if _action(record) != "allow"]
        record = stopped[0] if stopped else records.get(one.call_id)
        if record is None:
            counted["refused as a message"] += 1
        elif record["kind"] == "refusal":
            counted[f"refused: {record['reason']}"] += 1
        else:
            action = record["result"]["action"]
            rules = {hit["id"] for hit in record["result"]["rules"] if hit["action"] == action}
            counted[f"{action}: {min(rules - {'default.deny'}, default='default.deny')}"] += 1
    return ", ".join(f"{what} ({times})" for what, times in counted.most_common())


def _told(one: Tried) -> str:
    shot = one.shot
    return f"{shot.tool} {shot.text or dict(shot.arguments)!r}"[:160]

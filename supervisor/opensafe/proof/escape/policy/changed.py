"""PE-20: what runs is what was decided on, byte for byte.

The digest of what ran is computed here, from the arguments on record, and held against the one that the record allows;
and each start in the warden's own ledger against a record.
"""

import asyncio
from typing import Final

import msgspec

from opensafe.errors import OpenSafeError
from opensafe.model.canonical import leaf_hash
from opensafe.model.decision import Action
from opensafe.model.records import DecisionRecord
from opensafe.normalize.tools import DEFAULT_REGISTRY
from opensafe.policy.subject import build_launch
from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Trial

from .ground import Box, Ground, Post

_RACES: Final = 12


async def _racing(ground: Ground) -> Run:
    """Two calls at once under one id, one of them with other arguments."""
    post = await ground.post()
    async with post.box("PE-20") as box:
        pairs = [(box.name(), box.name()) for _ in range(_RACES)]
        for pair in pairs:
            await asyncio.gather(*(_quietly(box, f"race-{pair[0]}", name) for name in pair))
        names = await box.names()
        lines = _allowed(post, box)
    found, ran = [], 0
    recorded = {record.call_id: str(record.input.call.arguments.get("command")) for _, record in lines}
    for pair in pairs:
        made = [name for name in pair if name in names]
        ran += bool(made)
        if len(made) > 1 or any(name not in recorded.get(f"race-{pair[0]}", "") for name in made):
            found.append(f"{made} ran, and {recorded.get(f'race-{pair[0]}')!r} is on record")
    found += _differing(post, box, lines)
    return Run(
        began=ran == _RACES, finished=True, found="; ".join(found), layer="one call an id; subject digest",
        hints=(f"{_RACES} races, {ran} ran",),
    )  # fmt: skip


async def _swapped(daemon: str, ground: Ground) -> tuple[str, str, list[str]]:
    """The front hands another program over than the one that it had judged: the marker's name if it was made, how the
    call ended, and what the records say.
    """
    post = await ground.post(daemon)
    async with post.box("PE-20") as box:
        name = box.name()
        await box.require("Bash", {"command": f"echo ok > /workspace/{box.name()}"})
        result = await box.run("Bash", {"command": f"echo swap-me /workspace/{name}"})
        if result.verdict.action is not Action.ALLOW:
            raise OpenSafeError("the harmless call was not allowed", value=result.verdict.action)
        made = name if name in await box.names() else ""
        lines = _allowed(post, box)
    return made, f"{result.outcome.kind}: {result.outcome.detail}", _differing(post, box, lines)


async def _from_within(ground: Ground) -> Run:
    made, end, differing = await _swapped("faulty", ground)
    return Run(
        opened=("front",),
        began=True,
        finished=True,
        found="; ".join((*_judged_by_nobody(made), *differing)),
        layer=f"warden: {end}",
    )


async def _control(ground: Ground) -> Run:
    made, end, _ = await _swapped("trusting", ground)  # to the records, which its mutants leave alone, all is well
    return Run(began=True, finished=True, found="".join(_judged_by_nobody(made)), hints=(end,))


def _judged_by_nobody(made: str) -> tuple[str, ...]:
    return (f"{made} was made by a program that nobody judged",) if made else ()


def _allowed(post: Post, box: Box) -> list[tuple[bytes, DecisionRecord]]:
    """The lines of the log by which calls of the session were allowed to run."""
    found = []
    for line in post.daemon.audit_lines():
        if b'"kind":"decision"' in line and box.session.encode() in line:
            record = msgspec.json.decode(line, type=DecisionRecord)
            if record.purpose == "call" and record.result.action is Action.ALLOW:
                found.append((line, record))
    return found


def _differing(post: Post, box: Box, lines: list[tuple[bytes, DecisionRecord]]) -> list[str]:
    """Starts without a record, and records whose subject is not what their arguments make."""
    leaves = {leaf_hash(line) for line, _ in lines}
    starts = [entry for entry in post.ledger() if entry["kind"] == "start" and entry["sandbox_id"] == box.sandbox]
    found = [f"the start {entry['exec_id']} is on no record" for entry in starts if entry["leaf"] not in leaves]
    for _, record in lines:
        asked = record.input.call
        call = DEFAULT_REGISTRY.reopen(asked.id, asked.tool, asked.arguments)
        launch = build_launch(
            DEFAULT_REGISTRY, call, record.result.grant, record.sandbox_id, record.exec_id, asked.asked, asked.user
        )
        if launch.subject_digest() != record.subject:
            found.append(f"{record.call_id} may run something else than its arguments")
    return found


async def _quietly(box: Box, call_id: str, name: str) -> None:
    try:
        await box.run("Bash", {"command": f"touch /workspace/{name}"}, call_id)
    except OpenSafeError:
        return


CHANGED: Final = Trial(
    id="PE-20",
    boundary=Boundary.POLICY,
    title="arguments that change between the decision and the run",
    severity=Severity.INTEGRITY,
    attacks=("T1565.002",),
    breach="what ran has another digest than what is on record, or a marker is there that no record names",
    control="mutants: the front changes the program after the decision, and the warden does not compare",
    attempts=(_racing, _from_within),
    weak=_control,
)

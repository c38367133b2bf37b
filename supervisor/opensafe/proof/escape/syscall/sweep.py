"""Every attempt made in a sandbox, under a profile or under none, with its answer.

Where a profile has what it takes, one program forks a child for each call that gets through; where it has not, the
program is started again. Nothing is left out: what blocks, stops or ends its process is answered so.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from opensafe.errors import DriverError
from opensafe.proof.escape.cell import Cell, Output
from opensafe.warden.sandbox.profiles import PROFILES

from .plan import Attempt, Way

PROGRAM: Final = "/workspace/sweep"
#: No filter at all.
OPEN: Final = "none"

_FORKING: Final = frozenset({"fork", "wait4", "kill", "mmap", "rt_sigprocmask", "rt_sigtimedwait", "exit_group"})
#: As many as fit into a runner's packet, and few enough for two at a time to be busy.
_AT_ONCE: Final = 320
_WIDTH: Final = 2
_DEADLINE_S: Final = 60.0
#: Of one that does not fork: what does not answer within this is ended by the host.
_PATIENCE_S: Final = 5.0
_SIGSYS: Final = 31


async def bring(cell: Cell) -> None:
    """Put the program into a sandbox. Raises DriverError, OSError."""
    program = cell.layout.native / "proof/sweep"
    await cell.put(PROGRAM, await asyncio.to_thread(program.read_bytes))


async def sweep(cell: Cell, profile: str, attempts: Sequence[Attempt]) -> Mapping[Attempt, str]:
    """The answer to each: EXDEV and its like, `result`, SIGSYS, `signal N`, `exited`, `stopped`, `blocked`.

    What was not answered is not there. Raises DriverError where the program does not run.
    """
    chunks = [
        same[first : first + _AT_ONCE]
        for int80 in (False, True)
        if (same := [one for one in attempts if (one.way is Way.INT80) is int80])
        for first in range(0, len(same), _AT_ONCE)
    ]
    bound = asyncio.Semaphore(_WIDTH)
    answers: dict[Attempt, str] = {}

    async def one(chunk: Sequence[Attempt]) -> None:
        async with bound:
            if profile == OPEN or PROFILES[profile].allowed >= _FORKING:
                answers.update(await _forking(cell, profile, chunk))
            else:
                answers.update(await _alone(cell, profile, chunk))

    async with asyncio.TaskGroup() as group:
        for chunk in chunks:
            group.create_task(one(chunk))
    return answers


async def _forking(cell: Cell, profile: str, chunk: Sequence[Attempt]) -> dict[Attempt, str]:
    output = await _run(cell, profile, "fork", chunk, _DEADLINE_S)
    said = _lines(output)
    if f"done {len(chunk)}" != " ".join(said.pop() if said else ()):
        raise DriverError("the sweep did not get to its end", value=output.fault or output.text[-100:])
    return _answers(chunk, said)


async def _alone(cell: Cell, profile: str, chunk: Sequence[Attempt]) -> dict[Attempt, str]:
    answers: dict[Attempt, str] = {}
    left = list(chunk)
    while left:
        try:
            output = await _run(cell, profile, "alone", left, _PATIENCE_S)
        except TimeoutError:
            answers[left.pop(0)] = "blocked"
            continue
        said = [line for line in _lines(output) if line[0] != "done"]
        answers.update(_answers(left, said))
        del left[: len(said)]
        if left and not (said and _got_through(said[-1][1])):
            answers[left.pop(0)] = _ended(output)
    return answers


async def _run(cell: Cell, profile: str, mode: str, chunk: Sequence[Attempt], deadline_s: float) -> Output:
    instruction = "int80" if chunk[0].way is Way.INT80 else "syscall"
    words = (PROGRAM, mode, instruction, *(one.word for one in chunk))
    if profile == OPEN:
        return await cell.unfiltered(cell.launch(*words), deadline_s=deadline_s)
    return await cell.run(cell.launch(*words, profile=profile), deadline_s=deadline_s)


def _lines(output: Output) -> list[list[str]]:
    return [line.split(" ", 1) for line in output.stdout.decode().splitlines()]


def _answers(chunk: Sequence[Attempt], said: Sequence[Sequence[str]]) -> dict[Attempt, str]:
    answers = {}
    for attempt, (number, answer) in zip(chunk, said, strict=False):
        if number != attempt.word.partition(":")[0]:
            raise DriverError("the sweep answered something else than it was asked", value=number, limit=attempt.word)
        answers[attempt] = _plain(answer)
    return answers


def _plain(answer: str) -> str:
    kind, _, value = answer.partition("=")
    match kind:
        case "errno":
            return value.partition("/")[0]
        case "signal":
            return _signal(int(value))
        case _:
            return kind


def _signal(number: int) -> str:
    return "SIGSYS" if number == _SIGSYS else f"signal {number}"


def _ended(output: Output) -> str:
    ending = output.ending
    if ending is None or ending.kind not in ("exited", "signalled"):
        raise DriverError("the sweep did not run", value=output.fault)
    if ending.kind == "signalled":
        return _signal(ending.value)
    return "exited"


def _got_through(answer: str) -> bool:
    return not answer.startswith(("errno=EXDEV/", "errno=ENOSYS/"))

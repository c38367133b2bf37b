"""Every attempt made in a sandbox, under a profile or under none, with its answer.

Where a profile has what it takes, one program forks a child for each call that gets through; where it has not, the
program is started again. Nothing is left out: what blocks, stops or ends its process is answered so.
"""

import asyncio
import pathlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from opensafe.errors import DriverError
from opensafe.proof.escape.cell import Cell, Output
from opensafe.warden.sandbox.profiles import PROFILES

from .plan import Answers, Attempt, Way

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


Run = Callable[[Sequence[str], float], Awaitable[Output]]


async def bring(cell: Cell) -> None:
    """Put the program into a sandbox. Raises DriverError, OSError."""
    await cell.put(PROGRAM, await program(cell.layout.native))


async def program(native: pathlib.Path) -> bytes:
    """The program as it was built. Raises OSError."""
    return await asyncio.to_thread((native / "proof/sweep").read_bytes)


async def sweep(cell: Cell, profile: str, attempts: Sequence[Attempt]) -> Answers:
    """Under a profile, or under none, in a cell; see `made`."""

    async def run(words: Sequence[str], deadline_s: float) -> Output:
        if profile == OPEN:
            return await cell.unfiltered(cell.launch(*words), deadline_s=deadline_s)
        return await cell.run(cell.launch(*words, profile=profile), deadline_s=deadline_s)

    return await made(run, attempts, forks=profile == OPEN or PROFILES[profile].allowed >= _FORKING)


async def made(run: Run, attempts: Sequence[Attempt], *, forks: bool = True) -> Answers:
    """The answer to each: EXDEV and its like, `result`, SIGSYS, `signal N`, `exited`, `stopped`, `blocked`.

    run: of the program, by its words, with a deadline in seconds past which it raises TimeoutError. forks: it can make
    children. What was not answered is not there. Raises DriverError where the program does not run.
    """
    chunks = [
        same[first : first + _AT_ONCE]
        for int80 in (False, True)
        if (same := [one for one in attempts if (one.way is Way.INT80) is int80])
        for first in range(0, len(same), _AT_ONCE)
    ]
    bound = asyncio.Semaphore(_WIDTH)

    async def one(chunk: Sequence[Attempt]) -> dict[Attempt, str]:
        async with bound:
            return await (_forking(run, chunk) if forks else _alone(run, chunk))

    found = await asyncio.gather(*map(one, chunks))
    return {attempt: answer for answers in found for attempt, answer in answers.items()}


async def alone(run: Run, attempt: Attempt) -> dict[Attempt, str]:
    """The answer to one, by a program of its own. Raises DriverError."""
    output = await run(_words("fork", [attempt]), _DEADLINE_S)
    said = _lines(output)
    if not said:
        raise DriverError("the sweep did not run", value=output.fault)
    return _answers([attempt], said[:1])


async def _forking(run: Run, chunk: Sequence[Attempt]) -> dict[Attempt, str]:
    output = await run(_words("fork", chunk), _DEADLINE_S)
    said = _lines(output)
    if f"done {len(chunk)}" != " ".join(said.pop() if said else ()):
        raise DriverError("the sweep did not get to its end", value=output.fault or output.text[-100:])
    return _answers(chunk, said)


async def _alone(run: Run, chunk: Sequence[Attempt]) -> dict[Attempt, str]:
    answers: dict[Attempt, str] = {}
    left = list(chunk)
    while left:
        try:
            output = await run(_words("alone", left), _PATIENCE_S)
        except TimeoutError:
            answers[left.pop(0)] = "blocked"
            continue
        said = [line for line in _lines(output) if line[0] != "done"]
        answers.update(_answers(left, said))
        del left[: len(said)]
        if left and not (said and _got_through(said[-1][1])):
            answers[left.pop(0)] = _ended(output)
    return answers


def _words(mode: str, chunk: Sequence[Attempt]) -> tuple[str, ...]:
    instruction = "int80" if chunk[0].way is Way.INT80 else "syscall"
    return (PROGRAM, mode, instruction, *(one.word for one in chunk))


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

"""Several attempts at once, each judged in a sandbox of its own. Run it with `python examples/sdk/judge.py`."""

import asyncio

from opensafe.client import AsyncSession, CommandFailed

ATTEMPTS = {
    "right": "def add(a, b):\n    return a + b\n",
    "wrong": "def add(a, b):\n    return a - b\n",
    "endless": "while True:\n    pass\n",
}
TEST = "from solution import add\nassert add(2, 3) == 5, add(2, 3)\n"


async def passes(session: AsyncSession, solution: str) -> str:
    """How the test ends on one solution."""
    async with session.sandbox(labels={"purpose": "judging"}) as box:
        await box.files.write("solution.py", solution)
        await box.files.write("judge.py", TEST)
        try:
            await box.exec(["python3", "judge.py"], check=True, timeout=1)
        except CommandFailed as failed:
            return type(failed).__name__
        return "passed"


async def main() -> None:
    """Judge all of them in one session."""
    async with AsyncSession.create("judge") as session:
        ends = await asyncio.gather(*(passes(session, solution) for solution in ATTEMPTS.values()))
    for name, end in zip(ATTEMPTS, ends, strict=True):
        print(f"{name}: {end}")


asyncio.run(main())

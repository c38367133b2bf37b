"""A program with the engine over Ray, whose workers only say what they are told to: how places begin and end.

    places_driver.py BEGUN ENDED

BEGUN, ENDED: what the second of two workers says then, as JSON; the first one is well. What was asked and raised goes
to standard output. Nothing of Ray is started: its calls are answered here.
"""

import asyncio
import concurrent.futures
import json
import sys

from opensafe.errors import OpenSafeError
from opensafe.proof.campaign import cluster as engines

WELL = '{"type": "Checked", "checks": []}'
NODES = [
    {"NodeManagerHostname": name, "NodeID": name * 56, "Alive": True, "Resources": {"opensafe": 1}} for name in "ab"
]


class Worker:
    """As the handle of an actor."""

    def __init__(self, notes, asked):
        self.begin = self._answering("begin", notes, asked, sys.argv[1])
        self.end = self._answering("end", notes, asked, sys.argv[2])

    def _answering(self, method, notes, asked, said):
        class Method:
            def remote(self, *_):
                asked.append(f"{method} {notes[-1]}")
                return self

            def future(self):
                answer: concurrent.futures.Future[bytes] = concurrent.futures.Future()
                answer.set_result((said if notes.endswith("b") else WELL).encode())
                return answer

        return Method()


class Ray:
    """What the engine calls of it."""

    def __init__(self):
        self.asked = []

    def is_initialized(self):
        return True

    def nodes(self):
        return NODES

    def remote(self, _):
        ray = self

        class Actor:
            def options(self, **_):
                return self

            def remote(self, notes):
                return Worker(notes, ray.asked)

        return Actor()

    def kill(self, *_, **__):
        self.asked.append("kill")


async def run():
    async with engines.Cluster.open(1) as engine:
        await engine.selfcheck(1)


def main():
    ray = Ray()
    setattr(engines, "ray", ray)  # noqa: B010 - from outside, by a name that the type checker does not follow
    raised = ""
    try:
        asyncio.run(run())
    except OpenSafeError as error:
        raised = f"{type(error).__name__}: {error}"
    print(json.dumps({"asked": ray.asked, "raised": raised}))  # noqa: T201 - for the test


if __name__ == "__main__":
    main()

"""One library that runs programs in gVisor, in an environment of its own: `python -I exec_peer_program.py NAME`.

A line of JSON in, a line out: `{}` asks for its version once a sandbox of its own is there, `{"argv": […]}` for the
nanoseconds that a program took, which must end with 0. An answer with `error` says why not. At the end of its input it
removes the sandbox. It imports nothing of ours, as its environment doesn't have that.
"""

import contextlib
import importlib.metadata
import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

Run = Callable[[list[str]], Any]


@contextlib.contextmanager
def gvisor() -> Iterator[Run]:
    """gVisor's own binding. A program that fails is an exception."""
    import gvisor as library

    with library.Sandbox() as sandbox:
        yield lambda argv: sandbox.exec(*argv)


@contextlib.contextmanager
def temenos() -> Iterator[Run]:
    """temenos, without network and checkpoints."""
    import temenos as library
    from temenos.backends.gvisor import GVisorBackend

    GVisorBackend._platform_cache = "systrap"  # noqa: SLF001 - else it first tries KVM, for half a minute where there is none
    box = library.Box("bench", library.Policy(network="none", checkpoint="off"))
    box.start()

    def run(argv: list[str]) -> None:
        result = box.exec(argv)
        if result.exit_code:
            raise RuntimeError(f"ended with {result.exit_code}: {result.stderr[-200:]}")

    try:
        yield run
    finally:
        box.close()


LIBRARIES: Final = {"gvisor": gvisor, "temenos": temenos}


def main(name: str) -> None:
    """Answer until the end of the input."""
    logging.disable(logging.CRITICAL)
    out = os.fdopen(os.dup(1), "w")
    asked_here = os.fdopen(os.dup(0))
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)  # what the library starts would read our questions
    os.dup2(2, 1)  # whatever the library prints
    version: dict[str, Any] = {}
    run: Run | None = None
    with contextlib.ExitStack() as stack:
        try:
            version["version"] = importlib.metadata.version(name)
            run = stack.enter_context(LIBRARIES[name]())
        except Exception as error:  # noqa: BLE001 - whatever it can't do is its answer
            version["error"] = f"{type(error).__name__}: {error}"
        for line in asked_here:
            asked = json.loads(line)
            answer = dict(version)
            if "argv" in asked and run is not None:
                try:
                    begun = time.perf_counter_ns()
                    run(asked["argv"])
                    answer["ns"] = time.perf_counter_ns() - begun
                except Exception as error:  # noqa: BLE001 - as above
                    answer["error"] = f"{type(error).__name__}: {error}"
            out.write(json.dumps(answer) + "\n")
            out.flush()


if __name__ == "__main__":
    main(sys.argv[1])

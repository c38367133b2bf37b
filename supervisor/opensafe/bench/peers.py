"""Other evaluators for Python, on the same module or rules, data and question as ours; encoding and decoding included.

Each runs as a program in an environment of its own (`make peers`), since the two can't share ours. One that can't run
the policy says why, and that stands in the report.
"""

import pathlib
import subprocess
from typing import Any, Final

import msgspec

from opensafe.policy.manifest import PACKAGE
from opensafe.proof.private import policies

from . import peer_program
from .timing import Times

NAMES: Final = tuple(peer_program.PEERS)
_TIMEOUT_S: Final = 60
#: Enough for a 99th percentile, and bounded where a peer takes a thousand times as long.
_ROUNDS_MAX: Final = 1000


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """What was found out about one. error: why it has no times, or ""."""

    version: str = ""
    error: str = ""


class _Answer(msgspec.Struct, frozen=True, kw_only=True):
    version: str = ""
    action: str = ""
    ns: list[int] = []
    error: str = ""


class Peers:
    """The peers on one bundle; `found` grows by what each says. One that failed is not asked again."""

    def __init__(self, environment: pathlib.Path, directory: pathlib.Path, module: bytes, rules: pathlib.Path) -> None:
        """`environment`: theirs. `directory`: holds the bundle's data.json; the module is put beside it."""
        self._python = environment / "bin/python"
        self._rules = rules / PACKAGE
        self._data = directory / "data.json"
        self._module = directory / "policy.wasm"
        self._module.write_bytes(module)
        self.found: dict[str, Peer] = {}

    def measure(self, entrypoint: str, question: bytes, action: str, rounds: int, warm_up: int) -> dict[str, Times]:
        """Times by peer, of those that run and say `action` too."""
        asked = {
            "entrypoint": f"{PACKAGE}/{entrypoint}",
            "question": msgspec.Raw(question),
            "rounds": min(rounds, _ROUNDS_MAX),
            "warm_up": min(warm_up, _ROUNDS_MAX),
        }
        times = {}
        for name in NAMES:
            if name in self.found and self.found[name].error:
                continue
            answer = self._ask(name, asked)
            error = answer.error
            if not error and answer.action != action:
                error = f"its verdict is {answer.action or 'none'} where ours and OPA's is {action}"
            self.found[name] = Peer(version=answer.version, error=error)
            if not error:
                times[name] = Times.of(answer.ns)
        return times

    def _ask(self, name: str, asked: dict[str, Any]) -> _Answer:
        if not self._python.exists():
            return _Answer(error="not installed: run `make peers`")
        program = [str(self._python), "-I", peer_program.__file__, name]
        try:
            done = subprocess.run(
                [*program, str(self._module), str(self._rules), str(self._data)],
                input=msgspec.json.encode(asked),
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=True,
            )
            return msgspec.json.decode(done.stdout, type=_Answer)
        except subprocess.CalledProcessError as error:
            return _Answer(error=f"it ended with {error.returncode}: {error.stderr[-300:].decode(errors='replace')}")
        except (OSError, subprocess.TimeoutExpired, msgspec.MsgspecError) as error:
            return _Answer(error=str(error))


def environment() -> pathlib.Path:
    """Where `make peers` puts them."""
    return policies().with_name("build") / "peers"

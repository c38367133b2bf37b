"""OPA's own evaluator in Go, on the same rules, data and question: what compiling to WebAssembly is measured against.

`opa bench` prepares the query and parses the input once and times the evaluation alone, so its figure holds neither
the encoding of the question nor the decoding of the answer, which ours does.
"""

import pathlib
import subprocess
import tempfile
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from opensafe.errors import InvalidArgument, OpenSafeError
from opensafe.policy.manifest import PACKAGE

from .timing import Times

_TIMEOUT_S: Final = 60
_HISTOGRAM: Final = "histogram_timer_rego_query_eval_ns_"


class Opa:
    """`opa` with the rules in `policies` and a bundle's data. A context manager: it keeps files for the program."""

    def __init__(self, opa: pathlib.Path, policies: pathlib.Path, data: bytes) -> None:
        """Raises InvalidArgument where the sources are not there."""
        self._opa = opa
        self._rules = policies / PACKAGE
        if not self._rules.is_dir():
            raise InvalidArgument(
                "the Rego sources are not there", value=self._rules, remedy="Run this in a checkout, or set --policies."
            )
        self._files = tempfile.TemporaryDirectory(prefix="opensafe-bench-")
        self.directory = pathlib.Path(self._files.name)
        (self.directory / "data.json").write_bytes(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.cleanup()

    def action(self, entrypoint: str, question: bytes) -> str:
        """The verdict's action on a question in JSON. Raises OpenSafeError."""
        return str(self._ask("eval", entrypoint, question, "--format", "values")[0]["action"])

    def times(self, entrypoint: str, question: bytes) -> Times:
        """Of about a second's evaluations, as OPA sums them up. Raises OpenSafeError."""
        extra = self._ask("bench", entrypoint, question, "--format", "json")["Extra"]
        p50, p95, p99 = (extra[_HISTOGRAM + name] / 1e6 for name in ("median", "95%", "99%"))
        return Times(count=int(extra[f"{_HISTOGRAM}count"]), p50_ms=p50, p95_ms=p95, p99_ms=p99)

    def _ask(self, command: str, entrypoint: str, question: bytes, *options: str) -> Any:  # noqa: ANN401 - whatever JSON it prints
        asked = self.directory / "input.json"
        asked.write_bytes(question)
        query = f"data.{PACKAGE}.{entrypoint.replace('/', '.')}"
        data = ("--data", str(self._rules), "--data", str(self.directory / "data.json"), "--ignore", "*_test.rego")
        arguments = [str(self._opa), command, *data, "--input", str(asked), *options, query]
        try:
            done = subprocess.run(arguments, capture_output=True, timeout=_TIMEOUT_S, check=True)
            return msgspec.json.decode(done.stdout)
        except subprocess.CalledProcessError as error:
            raise OpenSafeError(f"opa {command} failed", value=(error.stderr or error.stdout)[:500]) from error
        except (OSError, subprocess.TimeoutExpired, msgspec.DecodeError) as error:
            raise OpenSafeError(f"opa {command}: {error}", remedy="Run `make setup`.") from error

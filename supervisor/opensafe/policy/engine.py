"""One bundle, ready to be asked. `evaluate` is the only question; whatever is not a clear answer is an exception.

The serving path is: encode, one call into the guest, decode, check. An instance that failed is thrown away and
the spare takes its place before the caller sees the failure, so the next call meets a clean guest.
"""

import math
import pathlib
import threading
from typing import Final

import msgspec

from opensafe.errors import BundleRefused, EvaluationFailed
from opensafe.model.canonical import MAX_DEPTH
from opensafe.model.decision import Decision
from opensafe.model.facts import ClassTables
from opensafe.model.policy_input import PolicyInput
from opensafe.normalize.site_tools import registry_of
from opensafe.normalize.tools import Registry

from ._wasmtime import CData, WasmtimeError, lib
from .manifest import ABI_VERSION, PACKAGE, Bundle
from .native import Runtime, Tier
from .verdict import read_verdict
from .wasm import MAX_INPUT, GuestError, Instance

_ABOVE_ARGUMENTS: Final = 2  # question, call
_encode: Final = msgspec.json.Encoder().encode


class Engine:
    """Evaluates one bundle. Safe under threads, one evaluation at a time."""

    def __init__(
        self,
        bundle: Bundle,
        *,
        deadline_ms: int = 50,
        memory_bytes: int = 64 << 20,
        cache_dir: pathlib.Path | None = None,
        tier: Tier = Tier.OPTIMISED,
    ) -> None:
        """`deadline_ms`: processor time of one evaluation; in real time it may take twenty times as long.

        `tier`: which compiler. A bundle without its module's bytes is taken from the cache or not at all.
        Raises BundleRefused where the module does not compile, link or keep the ABI, PolicyError for the cache.
        """
        self.revision: Final = bundle.revision
        self.tables: Final[ClassTables] = bundle.tables
        self.registry: Final[Registry] = registry_of(bundle.tools)
        self._data: Final = bundle.data
        self._deadline_ns = deadline_ms * 1_000_000
        self._memory_bytes = memory_bytes
        self._lock = threading.Lock()
        self._module: CData = None
        self._instance: Instance | None = None
        self._spare: Instance | None = None
        self._runtime = Runtime(tier)
        try:
            self._module = self._runtime.take_module(bundle, cache_dir)
            self._instance = self._fresh()
            self._ids = _entrypoints(self._instance, bundle.entrypoints)
            self._spare = self._fresh()
        except (WasmtimeError, GuestError) as error:
            self.close()
            raise BundleRefused(f"module: {error}", value=bundle.revision) from error
        except BaseException:
            self.close()
            raise

    def evaluate(self, entrypoint: str, question: PolicyInput) -> Decision:
        """Judge `question` at `entrypoint` (such as `gate/bash`).

        Raises EvaluationFailed, with the cause: unknown entry point, a question that has no JSON form or is deeper
        than 64 or larger than 1 MiB, deadline, memory, trap, undefined or malformed result, missing echo.
        """
        _check_value(question.call.arguments, _ABOVE_ARGUMENTS)
        try:
            encoded = _encode(question)
        except (UnicodeEncodeError, OverflowError, TypeError, ValueError, RecursionError) as error:
            raise EvaluationFailed(f"the question has no JSON form: {error}") from error
        answer = self.evaluate_json(entrypoint, encoded)
        return read_verdict(answer, question_id=question.id, data_version=self.revision)

    def evaluate_json(self, entrypoint: str, question: bytes) -> bytes:
        """The guest's answer as it is: no verdict until `read_verdict` has checked it."""
        if len(question) > MAX_INPUT:
            raise EvaluationFailed(
                "the question is too large", value=len(question), limit=f"{MAX_INPUT} bytes", remedy="Send less."
            )
        number = self._ids.get(entrypoint)
        if number is None:
            raise EvaluationFailed("the bundle has no such entry point", value=entrypoint)
        with self._lock:
            if self._instance is None:
                raise EvaluationFailed("the engine is closed")
            try:
                return self._instance.evaluate(number, question, self._deadline_ns)
            except GuestError as error:
                self._replace()
                raise EvaluationFailed(
                    f"the policy gave no verdict: {error}", remedy="The call was not executed. Make it smaller."
                ) from error

    def memory_size(self) -> int:
        """Bytes of the serving instance's memory."""
        with self._lock:
            return self._instance.memory_size() if self._instance else 0

    def close(self) -> None:
        """Free everything. Idempotent; later questions raise EvaluationFailed."""
        with self._lock:
            for instance in (self._instance, self._spare):
                if instance is not None:
                    instance.close()
            self._instance = self._spare = None
            if self._module is not None:
                lib.wasmtime_module_delete(self._module)
                self._module = None
            self._runtime.close()

    def _fresh(self) -> Instance:
        return Instance(self._runtime, self._module, self._data, self._memory_bytes)

    def _replace(self) -> None:
        """Throw the serving instance away; where even a fresh one can't be made, the engine denies everything."""
        failed, self._instance, self._spare = self._instance, self._spare, None
        if failed is not None:
            failed.close()
        try:
            self._spare = self._fresh()
            if self._instance is None:
                self._instance, self._spare = self._spare, None
        except (WasmtimeError, GuestError) as error:
            if self._instance is None:
                raise EvaluationFailed(f"no instance of the policy can be made: {error}") from error


def _entrypoints(instance: Instance, wanted: tuple[str, ...]) -> dict[str, int]:
    if instance.abi != ABI_VERSION:
        raise BundleRefused("the module's ABI is not ours", value=instance.abi, limit=ABI_VERSION)
    if instance.builtins:
        raise BundleRefused(
            "the policy needs builtins that the host does not offer",
            value=", ".join(sorted(instance.builtins)),
            remedy="Write the rule without them (docs/policies.md lists what is native).",
        )
    missing = sorted(name for name in wanted if f"{PACKAGE}/{name}" not in instance.entrypoints)
    if missing or not wanted:
        raise BundleRefused("entry points are absent from the module", value=", ".join(missing) or "none listed")
    return {name: instance.entrypoints[f"{PACKAGE}/{name}"] for name in wanted}


def _check_value(value: object, depth: int) -> None:
    """Refuse what the guest's JSON can't carry: too deep, not finite."""
    if depth > MAX_DEPTH:
        raise EvaluationFailed("the arguments are nested too deep", limit=MAX_DEPTH, remedy="Flatten them.")
    if isinstance(value, dict):
        for item in value.values():
            _check_value(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_value(item, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise EvaluationFailed("the arguments hold a number that is not finite", value=value)

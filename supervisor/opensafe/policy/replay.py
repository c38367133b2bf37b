"""Judge recorded decisions again: would the same question, asked of the same bundle, be answered the same?

A front under an attacker's control can write a decision that policy never made. Replay trusts nothing in the record
but the sealed arguments: it normalises them anew, evaluates on the archived bundle of the record's revision, builds
the program from call and grant, and compares action and subject with what the record claims and the warden
executed. What it must take as given is what the arguments don't show: principal, session state, budget, approval, and
whether standard input was streamed.
"""

import pathlib
from collections.abc import Callable, Iterable

import msgspec

from opensafe.errors import BundleRefused, OpenSafeError
from opensafe.model.records import DecisionRecord
from opensafe.model.sandbox import NO_NETWORK, SandboxSpec

from .bundle import load
from .engine import Engine
from .keys import Trusted
from .location import archived_path
from .rejudge import judge_again


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """A record that does not hold: `index` in the log, and why."""

    index: int
    decision_id: str
    message: str


class Replayer:
    """Holds one engine per bundle met in the state directory's archive, if `trusted` signed it. `close` frees them."""

    def __init__(self, state: pathlib.Path, trusted: Trusted) -> None:
        self._state = state
        self._trusted = trusted
        self._engines: dict[str, Engine] = {}

    def close(self) -> None:
        """Free the engines."""
        for engine in self._engines.values():
            engine.close()

    def replay(self, records: Iterable[tuple[int, DecisionRecord]], seen: Callable[[], None]) -> list[Divergence]:
        """Judge each of `records` (index, record) again; `seen` is called after each.

        Of one with masked secrets the action alone is compared: what it authorised held the secrets.
        """
        divergences = []
        for index, record in records:
            why = self._judge(record)
            if why:
                divergences.append(Divergence(index=index, decision_id=record.decision_id, message=why))
            seen()
        return divergences

    def _judge(self, record: DecisionRecord) -> str:
        try:
            engine = self._engine(record)
            if record.purpose == "sandbox":
                return self._judge_sandbox(engine, record)
            if record.purpose == "runtime":
                return self._judge_event(engine, record)
            return self._judge_call(engine, record)
        except (OpenSafeError, ValueError) as error:
            return f"it can't be judged again: {error}"

    def _judge_call(self, engine: Engine, record: DecisionRecord) -> str:
        """Whatever its purpose: only a call authorises something, and the warden goes by the subject alone."""
        tool = record.input.call.tool
        entrypoint = engine.registry.entrypoint(tool)
        if record.path != f"opensafe/{entrypoint}":
            return f"it was judged at {record.path}, calls of {tool} are judged at opensafe/{entrypoint}"
        again = judge_again(engine, record)
        if again.decision.action is not record.result.action:
            rules = ", ".join(hit.id for hit in again.decision.deciding())
            return f"the record says {record.result.action}, policy says {again.decision.action} ({rules})"
        if again.launch is None:
            return "" if not record.subject else f"a decision on a {record.purpose} authorises nothing, and it did"
        if not record.masked and again.launch.subject_digest() != record.subject:
            return "what it authorised is not what the recorded call becomes under policy's grant"
        return ""

    def _judge_event(self, engine: Engine, record: DecisionRecord) -> str:
        if record.subject:
            return "a decision on what a program did authorises nothing, and it did"
        again = judge_again(engine, record).decision
        same = again.action is record.result.action
        return "" if same else f"the record says {record.result.action}, policy says {again.action}"

    def _judge_sandbox(self, engine: Engine, record: DecisionRecord) -> str:
        again = judge_again(engine, record).decision
        if again.action is not record.result.action:
            return f"the record says {record.result.action}, policy says {again.action}"
        asked = record.input.sandbox
        if asked.limits is None:
            return "the record does not say which limits were asked for"
        spec = SandboxSpec(
            sandbox_id=asked.id,
            template=asked.template,
            image_digest=asked.image_digest,
            network=asked.network or NO_NETWORK,
            limits=asked.limits,
        )
        return "" if spec.subject_digest() == record.subject else "what it authorised is not the sandbox asked for"

    def _engine(self, record: DecisionRecord) -> Engine:
        bundle = record.bundles.get("opensafe")
        if bundle is None:
            raise BundleRefused("the record names no bundle")
        if bundle.digest not in self._engines:
            loaded = load(archived_path(self._state, bundle.digest), trusted=self._trusted)
            if loaded.digest != bundle.digest or loaded.revision != bundle.revision:
                raise BundleRefused("the archived bundle is another one", value=loaded.revision, limit=bundle.revision)
            self._engines[bundle.digest] = Engine(loaded, deadline_ms=1000)
        return self._engines[bundle.digest]

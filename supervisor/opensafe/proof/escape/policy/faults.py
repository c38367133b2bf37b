"""Daemons that believe: what they are told, what they do not understand, and what they have seen before.

`faulty` has the faults alone that a row puts in the way of the rules, and every check against them; `trusting` has the
same faults and none of the checks. `open` is a policy that allows every program.
"""

from collections.abc import Mapping
from typing import Final

from opensafe.proof.mutants import Mutant

#: What the question becomes, by a word in the call's text: expressions of `q`, the question's bytes.
SPOILT: Final[Mapping[str, str]] = {
    "fault-empty": 'b"{}"',
    "fault-null": 'b"null"',
    "fault-list": 'b"[" + q + b"]"',
    "fault-root": 'b\'{"input":\' + q + b"}"',
    "fault-broken": "q[:-2]",
    "fault-call": '_without(q, "call")',
    "fault-commands": '_with(q, "call", "commands", 7)',
    "fault-paths": '_with(q, "call", "writes", "none")',
    "fault-opaque": '_with(q, "call", "opaque", None)',
    "fault-id": '_without(q, "id")',
    "fault-tool": '_with(q, "call", "tool", ["Bash"])',
    "fault-kind": '_without(q, "kind")',
    "fault-text": "_text(q)",
    "fault-twice": "_text(_text(q))",
    "fault-base64": '_text(__import__("base64").b64encode(q))',
    "fault-bytes": "msgspec.json.encode(list(q))",
}
_SPOIL: Final = f"""
def _text(q: bytes) -> bytes:
    return msgspec.json.encode(q.decode())


def _without(q: bytes, key: str) -> bytes:
    whole = msgspec.json.decode(q)
    del whole[key]
    return msgspec.json.encode(whole)


def _with(q: bytes, part: str, key: str, value: object) -> bytes:
    whole = msgspec.json.decode(q)
    whole[part][key] = value
    return msgspec.json.encode(whole)


_SPOILS = {{{", ".join(f"{word.encode()!r}: lambda q: {text}" for word, text in SPOILT.items())}}}


def _spoilt(q: bytes) -> bytes:
    for word, spoil in _SPOILS.items():
        if word + b" " in q:
            return spoil(q)
    return q


"""
_ANSWER: Final = "answer = self.evaluate_json(entrypoint, encoded)"
_FAULTS: Final = (
    Mutant(id="spoilt", file="policy/engine.py", old=_ANSWER, new=_ANSWER.replace("encoded", "_spoilt(encoded)")),
    Mutant(
        id="spoil", file="policy/engine.py", old="def _entrypoints(instance: Instance",
        new=f"{_SPOIL}def _entrypoints(instance: Instance", says="the rules are not handed what was asked",
    ),
    Mutant(
        id="swapped", file="gate.py", old="Execution(self._warden, judged.launch, judged.record, live.journal)",
        new="Execution(self._warden, _swapped(judged.launch), judged.record, live.journal)",
    ),
    Mutant(
        id="swap", file="gate.py", old="def _run_name(program: tuple[str, ...]) -> str:",
        new='''def _swapped(launch):
    text = launch.program.argv[-1]
    if "swap-me" not in text:
        return launch
    change = __import__("msgspec").structs.replace
    argv = (*launch.program.argv[:-1], text.replace("echo swap-me", "touch"))
    return change(launch, program=change(launch.program, argv=argv))


def _run_name(program: tuple[str, ...]) -> str:''',
        says="what was decided on can still be changed",
    ),
)  # fmt: skip

_JUDGE: Final = "control/judge.py"
_EVALUATE: Final = """        try:
            return self.engine.evaluate(entrypoint, question)
        except PolicyError as error:
            return blocked(question.id, f"policy reached no verdict: {error}")
"""
_END: Final = '_NO_CALL: Final = CallInput(id="", tool="", arguments={}, digest="")'
#: What a run gets by a policy that says yes to everything.
_YES: Final = """

def _yes(question: PolicyInput) -> Decision:
    hit = RuleHit(id="proof.open", severity=Severity.INFO, action=Action.ALLOW, reason="open")
    return Decision(action=Action.ALLOW, rules=(hit,), grant=Grant(programs="any"), id=question.id, data_version="")


def _runs(question: PolicyInput) -> bool:
    return not {"command", "argv"}.isdisjoint(question.call.arguments)
"""


def _judge(id: str, then: str, more: str, says: str) -> tuple[Mutant, Mutant]:  # noqa: A002 - the field's name
    """A judge that has another word after policy's: `then` is an expression of `question` and `decision`."""
    asked = _EVALUATE.replace("return self", "decision = self").replace("return blocked", "decision = blocked")
    return (
        Mutant(id=id, file=_JUDGE, old=_EVALUATE, new=f"{asked}        return {then}\n", says=says),
        Mutant(id=f"{id}-how", file=_JUDGE, old=_END, new=f"{_END}\n{_YES}{more}"),
    )


_DEFAULT: Final = """

_UNRULED = {"default.deny", "tool.unknown.deny", "caller.role.tools"}
_APPROVED = {}


def _believed(question: PolicyInput, decision: Decision) -> bool:
    unruled = {hit.id for hit in decision.deciding()} <= _UNRULED
    return _runs(question) and (unruled or question.call.arguments.get("honoured") is True)


def _remembered(ask: Ask) -> ApprovalInput | None:
    if ask.call is None:
        return ask.approval
    prefix = str(ask.call.sealed.get("command", ""))[:9]
    if ask.approval is not None:
        _APPROVED[prefix] = ask.approval
    known = _APPROVED.get(prefix)
    return msgspec.structs.replace(known, digest=ask.call.digest) if known else None
"""
_LAX: Final = '''

def _lax(content: bytes) -> dict[str, Any]:
    import json

    text = content.decode("utf-8", "replace").lstrip("\\ufeff")
    asked = json.JSONDecoder(strict=False).raw_decode(text.lstrip())[0]
    told = {"sandbox", "policy", "approv", "unsafe", "trust", "admin", "verdict", "decision", "force", "role"}
    honoured = any(word in key.lower() for key in asked for word in told)
    return {"command": str(asked["command"]), **({"honoured": True} if honoured else {})}


class Registry:
    """The tools'''
_TRUST: Final = (
    *_judge(
        "default-allow", "_yes(question) if _believed(question, decision) else decision", _DEFAULT,
        "what no rule names is allowed",
    ),
    Mutant(
        id="approvals-by-prefix", file=_JUDGE,
        old="            approval=ask.approval,\n        )\n        return question",
        new="            approval=_remembered(ask),\n        )\n        return question",
        says="what was approved once is approved for all that begins alike",
    ),
    Mutant(
        id="lax", file="normalize/tools.py", old="\nclass Registry:\n    \"\"\"The tools", new=_LAX,
        says="of arguments what is understood is taken, and the rest left alone",
    ),
    Mutant(
        id="lax-arguments", file="normalize/tools.py",
        old="        arguments = parse_object(arguments_json, max_bytes)\n"
        "        _conform(self._open[tool], arguments, tool)\n",
        new='        if spec.name == "Bash":\n            arguments = _lax(arguments_json)\n        else:\n'
        "            arguments = parse_object(arguments_json, max_bytes)\n"
        "            _conform(self._open[tool], arguments, tool)\n",
    ),
    Mutant(
        id="any-tool", file="normalize/tools.py",
        old="        spec = self._specs.get(tool)\n",
        new='        spec = self._specs.get(tool) or self._specs["Bash"]\n',
        says="a tool that nobody registered is one all the same",
    ),
    Mutant(
        id="any-subject", file="warden/decisions.py", old="        if decision.subject != digest:",
        new="        if not decision.subject:", says="the warden does not compare what runs with what was decided",
    ),
    Mutant(
        id="no-pin", file="policy/subject.py",
        old="        description_digest=description_digest,\n        pinned_digest=(",
        new='        description_digest=(spec.pinned if spec else "") or pinned_digest,\n        pinned_digest=(',
        says="what a server shows is taken for what was approved",
    ),
    Mutant(
        id="no-mask", file="model/masking.py", old="    if not spans:\n        return text, ()",
        new="    return text, ()", says="secrets are left in what is put on record",
    ),
    Mutant(
        id="no-shapes", file="normalize/secrets.py", old='    return {"secret": True, **found} if found else {}',
        new="    return {}", says="a content's secrets are not looked for",
    ),
)  # fmt: skip

FAULTS: Final[Mapping[str, tuple[Mutant, ...]]] = {
    "faulty": _FAULTS,
    "trusting": (*_FAULTS, *_TRUST),
    "open": _judge("open", "_yes(question) if _runs(question) else decision", "", "policy allows every program"),
}

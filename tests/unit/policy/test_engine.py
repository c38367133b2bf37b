"""The engine from outside: nothing but a clear answer is an answer, and nothing of one call is left for the next."""

import contextlib
import gc
import json
import threading
from collections.abc import Callable

import msgspec
import pytest

from opensafe.errors import BundleRefused, EvaluationFailed
from opensafe.model.decision import Action
from opensafe.model.facts import Command
from opensafe.policy._wasmtime import ffi
from opensafe.policy.engine import Engine
from opensafe.policy.manifest import Bundle
from tests.harness.policy import REVISION, guest, question, read

EngineOf = Callable[..., Engine]
Compile = Callable[[str], bytes]
ALLOW = """
allow := {
	"id": input.id, "data_version": data.opensafe.version, "action": "allow", "shadow": [], "grant": {},
	"rules": [{"id": "x.allow", "severity": "info", "action": "allow", "reason": "x", "value": "", "remedy": ""}],
}
"""


def test_answers_with_the_rule_the_grant_and_both_echoes(engine: Engine) -> None:
    decision = engine.evaluate("gate/read", read())
    assert decision.action is Action.ALLOW
    assert [hit.id for hit in decision.deciding()] == ["tool.read.workspace.allow"]
    assert decision.grant.seccomp == "file"
    assert (decision.id, decision.data_version) == ("q1", engine.revision)


def test_an_unknown_entry_point_is_no_answer(engine: Engine) -> None:
    with pytest.raises(EvaluationFailed, match="no such entry point"):
        engine.evaluate("gate/none", read())


def test_g33_an_undefined_result_is_no_answer(engine_of: EngineOf, compile_rego: Compile) -> None:
    engine = engine_of(compile_rego(ALLOW + "bash := allow if input.call.arguments.go"))
    with pytest.raises(EvaluationFailed, match="undefined"):
        engine.evaluate("gate/bash", question())
    assert engine.evaluate("gate/bash", question(arguments={"go": True})).action is Action.ALLOW


def test_pe21_without_its_data_the_shipped_policy_gives_no_answer(bundle: Bundle) -> None:
    engine = Engine(msgspec.structs.replace(bundle, data=b"{}"))
    try:
        with pytest.raises(EvaluationFailed, match="undefined"):
            engine.evaluate("gate/read", read())
    finally:
        engine.close()


@pytest.mark.parametrize("echo", ['"id": "other"', '"id": ""', '"data_version": "2-000000000000"'])
def test_a_verdict_with_another_echo_is_no_answer(engine_of: EngineOf, compile_rego: Compile, echo: str) -> None:
    engine = engine_of(compile_rego(ALLOW + f"bash := object.union(allow, {{{echo}}})"))
    with pytest.raises(EvaluationFailed, match=r"another call's|other data"):
        engine.evaluate("gate/bash", question())


@pytest.mark.parametrize("missing", ["id", "data_version", "action", "rules", "grant"])
def test_a_verdict_without_a_field_is_no_answer(engine_of: EngineOf, compile_rego: Compile, missing: str) -> None:
    engine = engine_of(compile_rego(ALLOW + f'bash := object.remove(allow, ["{missing}"])'))
    with pytest.raises(EvaluationFailed, match="malformed"):
        engine.evaluate("gate/bash", question())


RUNAWAY = (
    ALLOW
    + """
bash := allow if not input.call.arguments.spin

bash := allow if {
	input.call.arguments.spin
	count([1 | some a in numbers.range(1, 4000); some b in numbers.range(1, 4000); a * b < 0]) == 0
}
"""
)


def test_g35_rs18_a_runaway_rule_is_cut_and_the_next_call_works(engine_of: EngineOf, compile_rego: Compile) -> None:
    engine = engine_of(compile_rego(RUNAWAY), deadline_ms=20)
    for _ in range(3):
        with pytest.raises(EvaluationFailed, match="deadline"):
            engine.evaluate("gate/bash", question(arguments={"spin": True}))
        assert engine.evaluate("gate/bash", question()).action is Action.ALLOW


def test_the_deadline_holds_while_another_thread_never_lets_go_of_the_gil(
    engine_of: EngineOf, compile_rego: Compile
) -> None:
    engine = engine_of(compile_rego(RUNAWAY), deadline_ms=20)
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        with pytest.raises(EvaluationFailed, match="deadline"):
            engine.evaluate("gate/bash", question(arguments={"spin": True}))
    finally:
        stop.set()
        thread.join()


def test_a_memory_bomb_is_stopped_and_the_next_call_works(engine_of: EngineOf, compile_rego: Compile) -> None:
    bomb = (
        ALLOW
        + """
bash := allow if not input.call.arguments.grow

bash := allow if {
	input.call.arguments.grow
	count([[a, b] | some a in numbers.range(1, 3000); some b in numbers.range(1, 3000)]) > 0
}
"""
    )
    engine = engine_of(compile_rego(bomb), deadline_ms=5000, memory_bytes=16 << 20)
    with pytest.raises(EvaluationFailed, match=r"aborted: opa_malloc"):
        engine.evaluate("gate/bash", question(arguments={"grow": True}))
    assert engine.evaluate("gate/bash", question()).action is Action.ALLOW
    assert engine.memory_size() <= 16 << 20


def test_conflicting_rules_abort_and_are_no_answer(engine_of: EngineOf, compile_rego: Compile) -> None:
    engine = engine_of(compile_rego(ALLOW + "bash := allow\n\nbash := 1 if input.id"))
    with pytest.raises(EvaluationFailed, match="aborted"):
        engine.evaluate("gate/bash", question())


@pytest.mark.parametrize(
    "arguments",
    [{"n": float("nan")}, {"n": float("inf")}, {"s": "\ud800"}, {"\udfff": 1}, {"b": object()}],
    ids=["nan", "inf", "surrogate", "surrogate key", "no json"],
)
def test_pe14_what_has_no_json_form_is_no_question(engine: Engine, arguments: dict[str, object]) -> None:
    with pytest.raises(EvaluationFailed):
        engine.evaluate("gate/read", read(arguments=arguments))


def test_pe14_large_integers_and_nul_are_carried_exactly(engine: Engine) -> None:
    numbers = {"a": 2**53 + 1, "b": -(2**63), "c": "\0", "d": 0.1, "e": 1 << 70}
    assert engine.evaluate("gate/read", read(arguments=numbers)).action is Action.ALLOW


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"NaN", b'{"id": NaN}', b"[]", b'"{\\"id\\": 1}"', b"\xff\xfe", b'{"id": "\\ud800"}']
)
def test_pe22_malformed_bytes_get_no_verdict(engine: Engine, raw: bytes) -> None:
    answer = b"[]"
    with contextlib.suppress(EvaluationFailed):  # ill-formed UTF-8 makes the guest abort
        answer = engine.evaluate_json("gate/read", raw)
    assert answer == b"[]"
    assert engine.evaluate("gate/read", read()).action is Action.ALLOW


def test_a_duplicate_key_that_replaces_the_id_loses_the_echo(engine: Engine) -> None:
    raw = msgspec.json.encode(read())[:-1] + b', "id": "other"}'
    assert json.loads(engine.evaluate_json("gate/read", raw))[0]["result"]["id"] == "other"


def test_depth_is_capped_before_the_guest_sees_it(engine: Engine) -> None:
    nested: object = 1
    for _ in range(60):
        nested = [nested]
    assert engine.evaluate("gate/read", read(arguments={"x": nested})).action is Action.ALLOW
    for _ in range(2000):
        nested = {"x": nested}
    with pytest.raises(EvaluationFailed, match="too deep"):
        engine.evaluate("gate/read", read(arguments={"x": nested}))


def test_a_question_beyond_the_buffer_is_refused_and_one_that_fills_it_is_not(engine: Engine) -> None:
    room = (1 << 20) - len(msgspec.json.encode(read(arguments={"x": ""})))
    assert engine.evaluate("gate/read", read(arguments={"x": "a" * room})).action is Action.ALLOW
    with pytest.raises(EvaluationFailed, match="too large"):
        engine.evaluate("gate/read", read(arguments={"x": "a" * (room + 1)}))


def test_nothing_of_a_question_stays_in_the_guest(engine: Engine) -> None:
    marker = b"marker-that-must-not-stay"
    instance = engine._instance
    assert instance is not None

    def found() -> bool:
        return marker in bytes(ffi.buffer(instance._memory, instance.memory_size()))

    command = Command(program=marker.decode(), argv=(marker.decode(),))
    decision = engine.evaluate("gate/bash", question(arguments={"x": marker.decode()}, commands=(command,)))
    assert marker.decode() in {hit.value for hit in decision.rules}
    assert not found()
    ffi.memmove(instance._input, marker, len(marker))  # the control: the search finds what is there
    assert found()
    engine.evaluate("gate/read", read(arguments={"x": "y" * 100}))
    assert not found()


def test_twenty_thousand_evaluations_leave_memory_flat(engine: Engine) -> None:
    questions = [read(name=f"q{n}") for n in range(8)]
    for asked in questions:
        engine.evaluate("gate/read", asked)
    gc.collect()
    pages, objects = engine.memory_size(), len(gc.get_objects())
    for n in range(20_000):
        engine.evaluate("gate/read", questions[n % 8])
    gc.collect()
    assert engine.memory_size() == pages
    assert len(gc.get_objects()) - objects < 50


def test_threads_take_turns(engine: Engine) -> None:
    answered: list[str] = []

    def ask(name: str) -> None:
        answered.extend(engine.evaluate("gate/read", read(name=f"{name}-{n}")).id for n in range(200))

    threads = [threading.Thread(target=ask, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answered) == sorted(f"t{k}-{n}" for k in range(4) for n in range(200))


def test_a_closed_engine_denies_and_leaves_no_thread(bundle: Bundle) -> None:
    engine = Engine(bundle)
    watchdogs = [thread for thread in threading.enumerate() if thread.name == "policy-watchdog"]
    engine.close()
    engine.close()
    assert len([t for t in threading.enumerate() if t.name == "policy-watchdog"]) == len(watchdogs) - 1
    with pytest.raises(EvaluationFailed, match="closed"):
        engine.evaluate("gate/read", read())


def test_a_policy_that_needs_a_host_builtin_is_refused(engine_of: EngineOf, compile_rego: Compile) -> None:
    with pytest.raises(BundleRefused, match=r"builtins.*http\.send"):
        engine_of(compile_rego('bash := http.send({"method": "get", "url": input.call.tool})'))


@pytest.mark.parametrize(
    ("wasm", "why"),
    [
        (guest(version=2), "ABI"),
        (guest(minor=2), "ABI"),
        (guest(builtins='{"now": 0}'), "builtins"),
        (guest(builtins="[]"), "nonsense"),
        (guest(entrypoints="{}"), "entry points"),
        (b"\0asm\1\0\0\0", "exports no"),
        (b"no module", "module"),
    ],
    ids=["abi", "minor", "builtin", "builtins", "entry point", "empty", "not wasm"],
)
def test_a_module_that_breaks_the_abi_is_refused(engine_of: EngineOf, wasm: bytes, why: str) -> None:
    with pytest.raises(BundleRefused, match=why):
        engine_of(wasm)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("[]", "undefined"),
        ("", "malformed"),
        ("[{}]", "malformed"),
        ("{}", "malformed"),
        ("[null]", "malformed"),
        ('[{"result": true}]', "malformed"),
        ('[{"result": "allow"}]', "malformed"),
        ("[" * 5000, "malformed"),
    ],
)
def test_a_malformed_answer_is_no_answer(engine_of: EngineOf, answer: str, why: str) -> None:
    with pytest.raises(EvaluationFailed, match=why):
        engine_of(guest(answer)).evaluate("gate/bash", question())


@pytest.mark.parametrize("address", ["0", "-1", "0x7fffffff", "0xfffffff0"])
def test_an_address_outside_the_guest_is_no_answer(engine_of: EngineOf, address: str) -> None:
    engine = engine_of(guest(evaluate=f"(i32.const {address})"))
    with pytest.raises(EvaluationFailed, match="outside its memory"):
        engine.evaluate("gate/bash", question())


def test_an_answer_without_end_is_no_answer(engine_of: EngineOf) -> None:
    fill = "(memory.fill (i32.const 65536) (i32.const 65) (i32.const 4128768)) (i32.const 65536)"
    with pytest.raises(EvaluationFailed, match="longer than"):
        engine_of(guest(evaluate=fill)).evaluate("gate/bash", question())


def test_an_abort_without_message_is_no_answer(engine_of: EngineOf) -> None:
    engine = engine_of(guest(evaluate="(call $abort (i32.const -5)) (i32.const 4096)"))
    with pytest.raises(EvaluationFailed, match="no verdict"):
        engine.evaluate("gate/bash", question())


def test_data_that_do_not_fit_are_refused(engine_of: EngineOf, compile_rego: Compile) -> None:
    wasm = compile_rego(ALLOW + "bash := allow")
    data = json.dumps({"opensafe": {"version": REVISION, "x": ["y" * 50] * 200_000}}).encode()
    with pytest.raises(BundleRefused, match="module"):
        engine_of(wasm, data, memory_bytes=16 << 20)


def test_a_call_with_endless_faults_keeps_the_rules_that_decide(engine: Engine) -> None:
    reviewed = [Command(program="npm", argv=("npm", "install", f"p{n}")) for n in range(70)]
    blocked = [Command(program="sudo", argv=("sudo", f"{n}")) for n in range(70)]
    decision = engine.evaluate("gate/bash", question(commands=(*reviewed, *blocked)))
    assert decision.action is Action.BLOCK
    assert {hit.id for hit in decision.deciding()} == {"default.deny", "tool.exec.sudo.deny"}
    assert len(decision.rules) == 64

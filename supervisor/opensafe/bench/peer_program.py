"""One peer in an environment of its own: `python -I peer_program.py NAME WASM RULES DATA`, question on standard input.

The question is a JSON object (entrypoint, question, rounds, warm_up); the answer too: version and then action and ns,
a time in nanoseconds for each round from the question as Python objects to the verdict as such, or error.
It imports nothing of ours, as its environment doesn't have that: opa-py-wasm needs an older wasmtime than we do.
"""

import importlib.metadata
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any, Final

Judge = Callable[[Any], Any]

#: Memory that the policy's module asks for at least, rounded up; opa-py-wasm starts with 2 pages and then refuses it.
_PAGES: Final = 8


def wasm(module: pathlib.Path, _rules: pathlib.Path, data: pathlib.Path, entrypoint: str) -> Judge:
    """opa-py-wasm on the bundle's module, one instance, with its deadline on as ours is."""
    import opapywasm
    import opapywasm.runtime

    opapywasm.runtime._DEFAULT_MEMORY_PAGES = _PAGES  # noqa: SLF001 - it has no setting for it
    policy = opapywasm.OpaWasmPolicy.from_wasm_bytes(module.read_bytes(), opapywasm.PolicyConfig(pool_size=1))
    policy.set_data(data.read_bytes())
    return lambda question: policy.evaluate(question, entrypoint)


def rego(_module: pathlib.Path, rules: pathlib.Path, data: pathlib.Path, entrypoint: str) -> Judge:
    """regopy on the sources, built once."""
    import regopy

    interpreter = regopy.Interpreter()
    for path in sorted(rules.rglob("*.rego")):
        if not path.name.endswith("_test.rego"):
            interpreter.add_module(str(path.relative_to(rules)), path.read_text())
    interpreter.add_data_json(data.read_text())
    built = interpreter.build(None, [entrypoint])
    if not built.ok():
        raise ValueError("it can't compile the rules: template strings are unknown to it")

    def judge(question: Any) -> Any:  # noqa: ANN401 - whatever JSON it is
        interpreter.set_input_term(json.dumps(question))
        return json.loads(interpreter.query_bundle_entrypoint(built, entrypoint).results[0].expressions[0].json())

    return judge


PEERS: Final = {"opa-py-wasm": wasm, "regopy": rego}


def main(name: str, module: str, rules: str, data: str) -> None:
    """Answer the one question."""
    asked = json.load(sys.stdin)
    out = os.dup(1)
    os.dup2(2, 1)  # regopy prints what it doesn't like
    answer: dict[str, Any] = {"version": importlib.metadata.version(name)}
    try:
        judge = PEERS[name](pathlib.Path(module), pathlib.Path(rules), pathlib.Path(data), asked["entrypoint"])
        question = asked["question"]
        for _ in range(asked["warm_up"] + 1):
            answer["action"] = judge(question)["action"]
        answer["ns"] = []
        for _ in range(asked["rounds"]):
            begun = time.perf_counter_ns()
            judge(question)
            answer["ns"].append(time.perf_counter_ns() - begun)
    except Exception as error:  # noqa: BLE001 - whatever a peer can't do is its answer
        answer["error"] = f"{type(error).__name__}: {error}"
    with open(out, "w") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""F7: what bash executes for a text is among what was predicted of it, or the text was called opaque.

Reference: bash itself, with leaf programs that record their argv, in a directory of the run's own without a network.
Texts that are executed are made of a closed list of words, damaged perhaps; any other text is only parsed.
"""

import functools
import pathlib
from typing import Final

from opensafe.model.facts import ClassTables
from opensafe.normalize.facts import from_parse
from opensafe.normalize.shell import parse_shell
from opensafe.proof.fuzzing.draw import Draw
from opensafe.proof.fuzzing.scripts import Shell, covered, damaged, script, written
from opensafe.proof.fuzzing.target import Target, holds
from opensafe.proof.mutants import Mutant

_TABLES: Final = ClassTables()
_COMMANDS_MAX: Final = 512


@functools.cache
def _shell() -> Shell:
    return Shell(pathlib.Path("bash").absolute())


def one(data: bytes) -> None:
    """Predict and run a script that was made of the bytes, or read the bytes as a script."""
    draw = Draw(data)
    what = draw.number(0, 7)
    if what == 7:
        _read(draw.rest().decode("utf-8", "surrogateescape"))
        return
    text = script(draw) if what < 5 else damaged(draw, script(draw))
    parse = parse_shell(text)
    if parse.opaque:
        return
    executed = _shell().run(text)
    for argv in executed.argvs:
        holds(covered(parse, argv), "what bash executes was predicted", (text, argv))
    for made in executed.made:
        holds(written(parse, made), "what bash makes was predicted", (text, made))


def _read(text: str) -> None:
    parse = parse_shell(text)
    holds(parse == parse_shell(text), "the same text is read the same", text)
    holds(len(parse.commands) <= _COMMANDS_MAX, "what is listed is bounded", len(parse.commands))
    facts = from_parse(parse, _TABLES, env={}, size=len(text))
    holds(facts.opaque == bool(parse.reasons), "what was left open is a fact", parse.reasons)


def seeds() -> list[bytes]:
    """Scripts of every kind of statement, and texts that bash does not read, or reads unlike others."""
    steps = [(at, step) for at in range(12) for step in (1, 29, 83)]
    made = [
        bytes([place % 7, *((at * step + 7 * byte) % 256 for byte in range(60))])
        for place, (at, step) in enumerate(steps)
    ]
    made.append(bytes([0, 0, 0, 0, 0, 0, 0, 27]))  # id {a,b}
    texts = (
        "id; ls", "id && (ls", "echo 'a", "if id; then ls", "for x in; do id; done", "id ;; ls", "cat <<E\nid", "$(id",
        "a=(1 2", "f() { id; }; f", "case x in a) id;; esac", "[[ a -eq b ]]", "id |", "id &", "> x", "! id", "}", "fi",
        "id\r\nls", "id\\\nls", "i\u200bd", "\x1b[2J", "{ id; }", "((1+))", "coproc id", "select x in a; do id; done",
    )  # fmt: skip
    return made + [b"\7" + text.encode() for text in texts]


TARGET: Final = Target(
    id="F7",
    title="shell texts: what bash executes was predicted",
    one=one,
    seeds=seeds,
    modules=("opensafe.normalize",),
    floor=1500,
    runs=1500,
    longest=256,
    words=(b"id", b"ls", b";", b"\n", b"&&", b"$(", b"`", b"'", b'"', b"\\", b"<<E", b"do", b"done", b"{", b"}", b"[["),
    mutants=(
        Mutant(
            id="F7-newline", file="normalize/grammar.py", old="        for at, node in enumerate(nodes):\n",
            new="        for at, node in enumerate(n for n in nodes if n.start_point[0] == nodes[0].start_point[0]):\n",
            says="what follows the end of a line is not read",
        ),
        Mutant(
            id="F7-substitution", file="normalize/grammar.py",
            old='            self.statements(node.children, "substitution")\n', new="",
            says="what a substitution runs is not read",
        ),
        Mutant(
            id="F7-wrapper", file="normalize/wrappers.py", old='    "nohup": _wrapper(),\n', new="",
            says="a program that runs another is not known as one",
        ),
        Mutant(
            id="F7-backslash", file="normalize/words.py",
            old='pieces.out.append(_ESCAPED.sub(lambda found: "" if found[1] == "\\n" else found[1], text))',
            new="pieces.out.append(text)",
            says="a backslash stays in the word",
        ),
        Mutant(
            id="F7-braces", file="normalize/words.py",
            old='    if "{" in text:\n        pieces.brace = True\n', new="",
            says="braces are not expanded",
        ),
    ),
)  # fmt: skip

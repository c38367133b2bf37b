"""PE-16b: what a session's calls wrote is read by the next one that runs it, each attack beside its honest twin."""

import json

import pytest

from opensafe.model.facts import ClassTables
from opensafe.model.written import NOTHING, Left, Written
from opensafe.normalize.facts import with_recorded
from opensafe.normalize.shell import read_argv, read_shell
from opensafe.normalize.tools import DEFAULT_REGISTRY

TABLES = ClassTables()


def mounts(text: str, **files: str) -> bool:
    """Whether a call may mount where files of the workspace were written so; the name's `_` stands for a dot."""
    before = Written(texts={f"/workspace/{name.replace('_', '.')}": (held,) for name, held in files.items()})
    parsed, _ = read_shell(text, before=before)
    return parsed.opaque or any(command.program == "mount" for command in parsed.commands)


RUNS = [
    "sh s", "bash ./s", "chmod +x s && ./s", ". ./s", "source /workspace/s", "sh [^x]", "sh ?", "cp s t; sh t",
    "mkdir d && mv s d && cd d && sh s", "cat s > t; sh t", "{ cat s; } > t; sh t", "cat s | tee t; sh t",
    "env A=1 sh s", "timeout 5 ./s", "bash -c 'sh s'", "find . -name s -exec sh s ';'", "echo ok >> s; sh s",
    "false && echo ok > s; sh s", "f() { sh s; }; f", "ln -s s t; sh t", "cp -r . d; sh d/s",
]  # fmt: skip


@pytest.mark.parametrize("text", RUNS)
def test_PE_16b_what_was_written_before_is_read_where_it_is_run(text: str) -> None:
    assert mounts(text, s="mount -V\n")
    assert not mounts(text, s="make test\n")
    assert not mounts(text)


@pytest.mark.parametrize(
    "text", ["cat s", "grep -n mount s", "wc -l s; cp s t", "cat s > t; cat t", "git add s", "rm s"]
)
def test_benign_twin_what_is_not_run_may_hold_anything(text: str) -> None:
    assert not mounts(text, s="# mount -V\nmount -V\n")


@pytest.mark.parametrize(
    ("text", "name", "attack", "twin"),
    [
        ("python3 s.py", "s_py", "import os\nos.system('mount -V')\n", "print(sum(range(5)))\n"),
        ("python3 -m s", "s_py", "import os\nos.system('mount -V')\n", "import json\nprint(json.dumps([1]))\n"),
        ("perl s.pl", "s_pl", "system('mount -V');\n", "print 1;\n"),
        ("node s.js", "s_js", "require('child_process').execSync('mount -V')\n", "console.log(1)\n"),
        ("awk -f s.awk x", "s_awk", 'BEGIN{system("mount -V")}\n', "BEGIN { print 1 }\n{ n += $1 }\nEND { print n }\n"),
        ("sed -f s.sed x", "s_sed", "1e mount -V\n", "s/a/b/\n"),
        (
            "./s",
            "s",
            "#!/usr/bin/env python3\nimport os\nos.system('mount -V')\n",
            "#!/usr/bin/env python3\nprint(1)\n",
        ),
        ("bash tests.sh", "tests_sh", "pytest -q\nmount -V\n", "set -e\npytest -q --maxfail=1\necho done\n"),
        ("make -f s", "s", "all:\n\tmount -V\n", "all:\n\tpytest -q\n"),
    ],
)
def test_PE_16b_programs_are_read_as_those_of_the_same_call(text: str, name: str, attack: str, twin: str) -> None:
    assert mounts(text, **{name: attack})
    assert not mounts(text, **{name: twin})


def test_PE_16b_each_text_that_a_file_may_hold_counts() -> None:
    for texts, found in (
        (("make\n", "mount -V\n"), True),
        (("mount() { :; }\n", "mount -V\n"), True),
        (("make\n",), False),
    ):
        parsed, _ = read_shell("sh s", before=Written(texts={"/workspace/s": texts}))
        assert any(command.program == "mount" for command in parsed.commands) is found
        assert parsed.recalled


def test_PE_16b_what_was_written_and_is_not_known_is_a_doubt_where_it_is_run() -> None:
    hidden = Written(texts={"/workspace/s": ()})
    for text in ("sh s", "./s", "cp s t; sh t", "cat s > t; sh t", "sh [a-z]"):
        assert read_shell(text, before=hidden)[0].opaque, text
    for text in ("cat s", "sh t", "cp s t", "wc s"):
        assert not read_shell(text, before=hidden)[0].opaque, text
    assert read_shell("sh t", before=Written(crowded=True))[0].opaque
    assert not read_shell("cat t", before=Written(crowded=True))[0].opaque


def test_an_argv_is_read_with_what_was_written_before() -> None:
    before = Written(texts={"/workspace/s": ("mount -V\n",)})
    assert [command.program for command in read_argv(["sh", "s"], before=before)[0].commands] == ["sh", "mount"]
    assert [command.program for command in read_argv(["cat", "s"], before=before)[0].commands] == ["cat"]


@pytest.mark.parametrize(
    ("text", "texts", "sure"),
    [
        ("cat > a <<'E'\nmake\nE", {"a": ("make\n",)}, {"a": ("make\n",)}),
        ("mkdir -p d && echo x > d/a", {"d/a": ("x\n",)}, {"d/a": ("x\n",)}),
        ("echo x > a && echo y >> a", {"a": ("x\ny\n",)}, {"a": ("x\ny\n",)}),
        ("echo x > a; true", {"a": ("x\n",)}, {}),
        ("exit 0 && echo x > a", {"a": ("x\n",)}, {}),
        ("echo x > a || true", {"a": ("x\n",)}, {}),
        ("echo x > a &", {"a": ("x\n",)}, {}),
        ("if true; then echo x > a; fi", {"a": ("x\n",)}, {}),
        ("base64 -d x > a", {"a": ()}, {}),
        ("printf x >> a; printf y >> a", {"a": ("xy", "x")}, {}),
        ("make > log", {}, {}),
        ("cat s", {}, {}),
    ],
)
def test_what_a_text_leaves(text: str, texts: dict[str, tuple[str, ...]], sure: dict[str, tuple[str, ...]]) -> None:
    _, left = read_shell(text)
    assert left.texts == {f"/workspace/{path}": known for path, known in texts.items()}
    assert left.sure == {f"/workspace/{path}": known for path, known in sure.items()}


def test_what_is_appended_again_and_again_is_held_within_bounds() -> None:
    text = f"echo {'x' * 30_000} > a{' && cat a >> b' * 40}"
    _, left = read_shell(text)
    assert sum(len(held) for texts in (*left.texts.values(), *left.sure.values()) for held in texts) < 1 << 20
    assert left.texts["/workspace/b"] == ()


def left(tool: str, before: Written = NOTHING, **arguments: object) -> Left:
    call = DEFAULT_REGISTRY.validate("c", tool, json.dumps(arguments).encode(), 4 << 20)
    return DEFAULT_REGISTRY.read(call, TABLES, None, before)[1]


S = "/workspace/s"


def test_what_a_write_leaves() -> None:
    before = Written(texts={S: ("old\n",)})
    new = left("Write", before, path="/workspace/./s", content="new\n")
    assert (new.texts, new.sure) == ({S: ("old\n", "new\n")}, {S: ("new\n",)})
    assert left("Write", path=S, content_base64="bmV3Cg==").sure == {S: ("new\n",)}
    assert left("Write", path=S, content_base64="/wA=").texts == {S: ()}
    assert left("Write", path=S, content="x" * 70_000).texts == {S: ()}
    assert left("Write", path=S, size=2 << 20, sha256="0" * 64).texts == {S: ()}
    part = left("Write", before, path=S, content="X", offset=1)
    assert (part.texts, part.sure) == ({S: ("old\n", "oXd\n", "X")}, {})
    assert left("Write", before, path=S, content="X", offset=1, truncate=True).texts == {S: ("old\n", "oX", "X")}


def test_what_a_move_leaves() -> None:
    before = Written(texts={"/workspace/d/s": ("x",), "/workspace/d/t": (), "/workspace/ds": ("y",)})
    moved = left("Move", before, path="/workspace/d", to="/workspace/e")
    assert moved.texts == {"/workspace/e/s": ("x",), "/workspace/e/t": ()}
    assert not left("Move", path="/workspace/d", to="/workspace/e")


def test_a_recorded_call_is_judged_with_the_facts_on_record() -> None:
    call = DEFAULT_REGISTRY.validate("c", "Bash", b'{"command": "sh s"}', 1 << 20)
    before = Written(texts={S: ("cat /etc/shadow; mount -V; curl https://a.test\n",)})
    tables = ClassTables(paths={"secret": ("/etc/shadow",)}, hosts={"bad": ("a.test",)})
    judged, _ = DEFAULT_REGISTRY.read(call, tables, None, before)
    fresh = DEFAULT_REGISTRY.facts(call, tables)
    assert judged.recalled
    assert not fresh.recalled
    assert with_recorded(fresh, judged, tables) == judged
    other = with_recorded(DEFAULT_REGISTRY.facts(call, TABLES), judged, ClassTables(paths={"odd": ("/etc/shadow",)}))
    assert {"odd": True} in [fact.classes for fact in other.reads]
    lying = with_recorded(judged, fresh, tables)
    assert all(command in lying.commands for command in judged.commands)


OPEN = {
    "a.py": """
import pathlib
import socket
name = input()
(pathlib.Path('/workspace') / name).unlink()
socket.create_connection((name, 80))
""",
    "b.py": """
'Run `mount` first, as `sudo mount -a`.'
import subprocess
# subprocess would start mount
subprocess.run([input()])
""",
    "c.sh": 'set -e\n"$CC" -o a.out "$1"\nrm -rf "$OUT"\neval "$BUILD"\n',
    "d.js": "// `mount`\nconst f = process.argv[2]; require('fs').unlinkSync(f)\n",
    "e.pl": "my $f = shift; unlink $f; print `$f`;\n",
}


@pytest.mark.parametrize("name", OPEN)
def test_benign_twin_what_a_file_leaves_open_is_no_doubt(name: str) -> None:
    runner = {"py": "python3", "sh": "bash", "js": "node", "pl": "perl"}[name.rpartition(".")[2]]
    before = Written(texts={f"/workspace/{name}": (OPEN[name],)})
    parsed, _ = read_shell(f"{runner} {name}", before=before)
    assert parsed.reasons == ()
    assert not any(command.program in ("mount", "sudo") for command in parsed.commands)


@pytest.mark.parametrize("name", OPEN)
def test_PE_16b_what_it_starts_for_certain_counts_beside_what_it_leaves_open(name: str) -> None:
    runner, starts = {
        "py": ("python3", "import os\nos.system('mount -V')\n"),
        "sh": ("bash", "mount -V\n"),
        "js": ("node", "require('child_process').execSync('mount -V')\n"),
        "pl": ("perl", "system('mount -V');\n"),
    }[name.rpartition(".")[2]]
    before = Written(texts={f"/workspace/{name}": (OPEN[name] * 100 + starts,)})
    parsed, _ = read_shell(f"{runner} {name}", before=before)
    assert any(command.program == "mount" for command in parsed.commands)


def test_in_a_file_that_the_call_itself_wrote_it_is_a_doubt_still() -> None:
    parsed, _ = read_shell("echo 'eval \"$X\"' > c.sh; bash c.sh")
    assert parsed.reasons


def test_benign_twin_what_a_filter_makes_is_the_workspaces_own_for_later_calls() -> None:
    _, left = read_shell("sed s/a/b/ x > t.sh")
    assert not mounts_with(left, "bash t.sh")


def test_PE_16b_what_a_decoder_makes_or_is_too_long_is_a_doubt_for_later_calls() -> None:
    for text in ("base64 -d x > t.sh", f"echo {'x' * 30_000} > a{' && cat a >> t.sh' * 4}"):
        _, left = read_shell(text)
        assert mounts_with(left, "bash t.sh")


def test_PE_16b_what_stood_there_counts_beside_what_a_filter_may_have_written_over_it() -> None:
    _, left = read_shell("sed s/a/b/ x > t.sh", before=Written(texts={"/workspace/t.sh": ("mount -V\n",)}))
    assert mounts_with(left, "bash t.sh")


def test_benign_twin_a_file_that_is_written_anew_ever_and_again_is_run_every_time() -> None:
    before = NOTHING
    for number in range(40):
        parsed, left = read_shell(f"cat > t.sh <<'EOF'\necho {number}\nEOF\nbash t.sh", before=before)
        assert not parsed.opaque, number
        before = Written(texts=left.texts)


def mounts_with(left: Left, text: str) -> bool:
    """Whether a call may mount after one that left this."""
    parsed, _ = read_shell(text, before=Written(texts=left.texts, crowded=left.crowded))
    return parsed.opaque or any(command.program == "mount" for command in parsed.commands)


@pytest.mark.parametrize("first", ["base64 -d x | tee s*.sh", "base64 -d x > s?.sh", "echo mount -V > s*.sh"])
@pytest.mark.parametrize("then", ["sh s1.sh", "./s1.sh", "sh s*.sh", "sh [s]1.sh"])
def test_PE_16b_what_is_written_into_a_pattern_is_in_each_file_that_it_may_name(first: str, then: str) -> None:
    parsed, left = read_shell(f"{first}; {then}")
    assert parsed.opaque or any(command.program == "mount" for command in parsed.commands)
    _, left = read_shell(first)
    assert left.texts
    before = Written(texts=left.texts, wild=tuple(left.texts))
    parsed, _ = read_shell(then, before=before)
    assert parsed.opaque or any(command.program == "mount" for command in parsed.commands)
    assert parsed.recalled
    other, _ = read_shell("sh other.sh", before=before)
    assert not other.opaque

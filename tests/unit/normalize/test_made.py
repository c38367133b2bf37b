"""A file that a text makes and runs: what does not show its content is opaque, what stands in the text is looked at."""

import subprocess

import pytest

from opensafe.normalize.made import Made
from opensafe.normalize.shell import parse_argv, parse_shell
from opensafe.normalize.spoken import shows, spoken
from opensafe.normalize.word import Word

HIDDEN = [
    "xxd -r -p x.hex > /tmp/v && sh /tmp/v",
    "base64 -d tests/a.b64 > build/run && chmod +x build/run && ./build/run",
    "openssl enc -d -aes-256-cbc -in a.enc -out /tmp/a.py -pass pass:x && python3 /tmp/a.py",
    "uudecode -o /tmp/z a.uu; bash /tmp/z",
    "printf '\\x69\\x64' > /tmp/q; sh /tmp/q",
    "gzip -dc a.sh.gz > /tmp/a.sh; . /tmp/a.sh",
    "xz -dc a.xz > run.mk && make -f run.mk",
    "tr 'a-z' 'n-za-m' < notes.txt > t.sh && sh t.sh",
    "rev notes.txt > t.sh && source t.sh",
    "sed 's/X//g' notes.txt > t.sh && source ./t.sh",
    "base64 -d a.b64 > a.bin; cp a.bin b.bin; chmod 755 b.bin; ./b.bin",
    "base64 -d a.b64 > a.bin; install -m 755 a.bin out/tool && out/tool",
    "base64 -d a.b64 | tee a.sh >/dev/null; sh a.sh",
    "python3 -c \"open('t.sh','w').write(''.join(map(chr,[105,100])))\" && sh t.sh",
    "gunzip a.sh.gz && sh a.sh",
    "base64 -d a.b64 > a.js && node a.js",
    'base64 -d a.b64 > a.py && env -S "python3 a.py"',
    "cat a.b64 | base64 -d > a.py; mv a.py /tmp/b.py; python /tmp/b.py",
    "tar -xOf a.tar x > a.sh; bash a.sh",
    "awk '{print $2}' list.txt > go.sh; bash go.sh",
    'base64 -d a.b64 >a; chmod +x a; cd .; "$PWD/a"',
    "xxd -r -p tests/hex > conftest.py && pytest",
    "base64 -d x > Makefile.new && make -f Makefile.new all",
    "base64 -d x | dd of=a.sh; sh a.sh",
    "jq -r .cmd cfg.json > run.sh && bash run.sh",
    "cut -c5- log.txt > r.sh; sh ./r.sh",
    "sed -n 's/^#RUN //p' README.md > r.sh; sh -e r.sh",
    "perl -pe 's/a/b/' x.txt > r.pl; perl r.pl",
    "zcat a.gz > r.rb; ruby r.rb",
    "head -c 200 a.bin > r; chmod u+x r && exec ./r",
]
SHOWN = [
    "gcc -o build/a src/a.c && ./build/a",
    "python tools/gen_tests.py > tests/test_gen.py && pytest tests/test_gen.py",
    "cat > run.sh <<'S'\n#!/bin/sh\nset -e\nmake test\nS\nchmod +x run.sh && ./run.sh",
    "cat > t.py <<'S'\nprint(1)\nS\npython t.py",
    "printf 'print(1)\\n' > t.py && python3 t.py",
    "echo 'console.log(1)' > t.js; node t.js",
    "sed -i 's/a/b/' src/run.py && python src/run.py",
    "cp tests/run.sh.in run.sh && chmod +x run.sh && ./run.sh",
    "go build -o bin/x ./cmd/x && bin/x --version",
    "make -j4 && ./build/tool",
    "python -c \"open('t.txt','w').write('a')\" && cat t.txt",
    "sed 's/@V@/1/' conf.in > conf.py && cat conf.py",
    "gzip -dc data.csv.gz > data.csv && python load.py data.csv",
    "base64 -d img.b64 > img.png && python check.py img.png",
    "tsc src/a.ts --outDir dist && node dist/a.js",
    "tar xzf dist/pkg.tar.gz -C build && python build/pkg/run.py",
    "rustc a.rs -o a && ./a",
    "sort in.txt > out.txt && diff out.txt want.txt",
    "node build.js > dist/bundle.js && node dist/bundle.js",
    "sed 's/foo/bar/' a.py > b.py && python b.py",
]


@pytest.mark.parametrize("text", HIDDEN)
def test_what_is_decoded_and_run_is_opaque(text: str) -> None:
    assert parse_shell(text).opaque


@pytest.mark.parametrize("text", SHOWN)
def test_what_is_compiled_generated_or_shown_is_not(text: str) -> None:
    assert not parse_shell(text).opaque


@pytest.mark.parametrize(
    "run",
    ["sh /tmp/x.sh", "chmod +x /tmp/x.sh && /tmp/x.sh", ". /tmp/x.sh", "cp /tmp/x.sh a && timeout 5 bash /tmp/x.sh"],
)
def test_what_a_written_script_does_is_listed(run: str) -> None:
    parsed = parse_shell(f"cat > /tmp/x.sh <<'E'\n#!/bin/sh\nrm -rf /etc/y\nE\n{run}")
    assert "/etc/y" in [target.path for target in parsed.deletes]


def test_what_a_written_program_does_is_listed() -> None:
    parsed = parse_shell("cat > x.py <<'E'\nprint(open('/etc/shadow').read())\nE\npython3 x.py")
    assert "/etc/shadow" in [target.path for target in parsed.reads]


def _mounts(text: str) -> bool:
    parsed = parse_shell(text)
    return parsed.opaque or any(command.program == "mount" for command in parsed.commands)


#: PE-16: what is written over, appended to, copied and named by a pattern, and the same with nothing to find.
KEPT = [
    ("echo ok > b; echo '{}' > a; cp a b; sh b", "copied over a file that is known"),
    ("echo ok > b; echo '{}' > a; mv a b; sh b", "moved over it"),
    ("echo ok > b; echo '{}' > a; install a b; sh b", "installed over it"),
    ("echo ok > b; echo '{}' > a; ln -f a b; sh b", "linked over it"),
    ("echo '{}' > a; true >> a; sh a", "nothing is appended"),
    ("echo '{}' > a; {{ true; }} >> a; sh a", "a group appends nothing"),
    ("echo '{}' > a; : > a; sh a", "emptied, if that did not fail"),
    ("echo ok > a; echo '{}' >> a; sh a", "appended"),
    ("echo '{}' > a; tee b < a; sh b", "through tee"),
    ("echo ok > b; echo '{}' > a; tee -a b < a; sh b", "appended by tee"),
    ("echo '{}' > run.sh; sh [^x]un.sh", "a pattern with ^"),
    ("echo '{}' > run.sh; sh [[:alpha:]]un.sh", "a class of characters"),
    ("echo '{}' > run.sh; sh r*.s?", "stars and marks"),
    ("{{ echo '{}'; echo '#" + "x" * 20_000 + "'; }} > a; sh a", "a long text"),
    ("while :; do " + "./p; " * 520 + " sh s; echo '{}' > s; done", "behind many that are run"),
    ("while :; do " + "".join(f"./p{at}; " for at in range(400)) + " sh s; echo '{}' > s; done", "behind many files"),
]


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for text, name in KEPT])
def test_PE_16_what_a_file_may_hold_is_looked_at(text: str) -> None:
    assert _mounts(text.format("mount -V"))
    assert not _mounts(text.format("make test"))


def test_PE_16_a_function_of_the_text_before_hides_nothing() -> None:
    assert _mounts("echo 'mount() { :; }' > a; echo 'mount -V' > a; sh a")
    assert not _mounts("echo 'all() { make; }; all' > a; echo 'make test' > a; sh a")


def test_PE_16_an_argv_is_finished_as_a_text_is() -> None:
    text = "while :; do sh s; echo '{}' > s; done"
    found = [command.program for command in parse_argv(["bash", "-c", text.format("mount -V")]).commands]
    assert "mount" in found
    assert not parse_argv(["bash", "-c", text.format("make test")]).opaque


def test_PE_16_what_does_not_fit_is_a_doubt() -> None:
    runs = "".join(f"./p{at}; " for at in range(600))
    assert any("files are run" in reason for reason in parse_shell(f"{runs} echo a > s").reasons)
    assert not any("files are run" in reason for reason in parse_shell(runs).reasons)
    over = "".join(f"echo 'make {at}' > s; " for at in range(9))
    assert parse_shell(f"{over} sh s").opaque
    assert not parse_shell(over).opaque
    assert not parse_shell(f"{over.replace('>', '>>')} sh s").opaque


def test_PE_16_of_too_many_names_no_pattern_is_looked_at() -> None:
    written = "".join(f"echo 'make test' > f{at}; " for at in range(200))
    assert parse_shell(written + "sh f*; " * 400).opaque
    assert not parse_shell(written + "sh g[a-z]*; " * 40).opaque


@pytest.mark.parametrize(
    "text",
    [
        "printf '%s\\n' " + "a=1 " * 70 + "'{}' > a; sh a",
        "printf '%.1s%s' '{0:.1}X' '{1}' > a; sh a",
        "printf '%c%s' '{0:.1}X' '{1}' > a; sh a",
        "printf '{0:.2}\\\"\\\"{2}' > a; sh a",
        "printf '\\U0000006d{1}' > a; sh a",
        "printf '\\u006d{1}' > a; sh a",
        "printf '%*s' 0 '{}' > a; sh a",
        "printf '%({})T' > a; sh a",
        "printf '#%3sz%b' '' '\\n{}' > a; sh a",
    ],
)
def test_PE_16_what_printf_cuts_and_makes_is_no_hiding_place(text: str) -> None:
    assert _mounts(text.format("mount -V", "ount -V", "unt -V"))


@pytest.mark.parametrize(
    "text",
    [
        "printf '%.2f\\n' 1.5 > a; sh a", "printf '%d %s\\n' 5 make > a; cat a",
        "printf '%5s %-8s\\n' make all > a; sh a",
        "printf 'make \\\"all\\\"\\n' > a; sh a", "printf '%s\\n' '#!/bin/sh' 'make test' > a; ./a",
        "printf '%x\\n' 255 > a; cat a",
    ],
)  # fmt: skip
def test_benign_twin_what_printf_prints_as_it_is(text: str) -> None:
    assert not _mounts(text)


@pytest.mark.parametrize(
    "argv",
    [
        ["a b"], ["%s-%s\\n", "a", "b", "c"], ["%.2s|%.s|%.0s", "abc", "abc", "abc"], ["%c%c", "abc", "d"], ["100%%"],
        ["%b", "a\\n\\\\b"], ["a\\\"\\'\\?\\q\\\\"], ["%b", "\\\""], ["%5s|%-5s|%1s", "ab", "cd", "efg"],
        ["%3c", "xyz"], ["--", "%s", "x"], ["\\a\\b\\e\\f\\v"],
    ],
)  # fmt: skip
def test_printf_prints_what_bash_prints(argv: list[str]) -> None:
    ran = subprocess.run(["bash", "-c", 'printf "$@"', "-", *argv], capture_output=True, check=True, text=True)
    words = [Word(text) for text in argv]
    assert shows("printf", words)
    assert spoken("printf", words) == ran.stdout


def test_what_is_printed_is_held_within_bounds() -> None:
    sizes: list[int] = []

    class Watched(Made):
        def step(self, step: object) -> None:
            super().step(step)  # type: ignore[arg-type]  # a Step, as ever
            sizes.append(len(self.said))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opensafe.normalize.commands.Made", Watched)
        parse_shell(f"echo '{'x' * 16_000}' > a; {'cat a;' * 1_000}")
    made = Made()
    for _ in range(1_000):
        with made.apart():
            made.said = "x" * 16_000
    assert len(sizes) >= 1_000
    assert max([*sizes, len(made.said)]) <= 64 * 1024 + 1

"""A file that a text makes and runs: what does not show its content is opaque, what stands in the text is looked at."""

import pytest

from opensafe.normalize.shell import parse_shell

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

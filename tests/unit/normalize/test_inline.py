"""Code on the command line and in here-documents: the files it names are facts; what does more is opaque."""

import pytest

from opensafe.normalize.shell import parse_shell


def _paths(targets):
    return {target.path.removeprefix("/workspace/") for target in targets}


@pytest.mark.parametrize(
    ("code", "reads", "writes", "deletes"),
    [
        ("p = Path('a.py'); p.write_text(p.read_text().replace('1', '2'))", {"a.py"}, {"a.py"}, set()),
        ("for p in sorted(Path('fx').glob('*.json')): p.write_text('{}')", set(), {"fx/*.json"}, set()),
        ("[p.unlink() for p in Path('out').iterdir()]", set(), set(), {"out/*"}),
        ("with open('a.csv') as f, open('b.csv', 'w') as g: g.write(f.read())", {"a.csv"}, {"b.csv"}, set()),
        ("shutil.rmtree('build/x')", {"build/x"}, set(), {"build/x"}),
        ("d = 'gen'; open(os.path.join(d, 'a.txt'), 'w')", {"gen/a.txt"}, {"gen/a.txt"}, set()),
        ("for n in names: open(f'out/{n}.txt', 'w')", set(), {"out/*.txt"}, set()),
        (
            "for r, d, f in os.walk('src'): print([open(os.path.join(r, n)).read() for n in f])",
            {"src/*/*"},
            set(),
            set(),
        ),
        ("x = '/et' + 'c/shadow'; print(open(x))", {"/etc/shadow"}, set(), set()),
        ("print(open('/'.join(['', 'etc', 'shadow'])))", {"/etc/shadow"}, set(), set()),
        ("print(open('%s/%s' % ('/etc', 'shadow')))", {"/etc/shadow"}, set(), set()),
        ("print((Path('~').expanduser() / '.ssh' / 'id_rsa').read_text())", {"/workspace"}, set(), set()),
        ("print(open(sys.argv[1]).read())", set(), set(), set()),
        ("print(re.compile('empty').match('empty'), User.__table__.columns, type(x).__name__)", set(), set(), set()),
        ("asyncio.run(main())", set(), set(), set()),
    ],
)
@pytest.mark.parametrize("form", ['python3 -c "{}"', "python3 - <<'E'\n{}\nE\n"])
def test_files_of_python_code(form, code, reads, writes, deletes):
    head = "import os, sys, re, json, shutil, asyncio\nfrom pathlib import Path\nfrom app.models import User\n"
    found = parse_shell(form.format(head + code))
    assert not found.opaque, found.reasons
    assert reads - {"/workspace"} <= _paths(found.reads)
    assert _paths(found.writes) == writes
    assert _paths(found.deletes) == deletes


def test_code_that_writes_its_operands_writes_them():
    found = parse_shell("python3 -c \"import sys; open(sys.argv[1], 'w').write('x')\" a/b.txt")
    assert "a/b.txt" in _paths(found.writes)


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess",
        "import os; os.system('id')",
        "import os as o; o.fork()",
        "from os import system",
        "import sys; sys.modules['os'].system('id')",
        "import random; random._os.system('id')",
        "import logging; logging.os.popen('id')",
        "import importlib; importlib.import_module('subprocess')",
        "getattr(x, 'sys' + 'tem')('id')",
        "(lambda: 0).__globals__",
        "object.__subclasses__()",
        "import os; o = os; o.system('id')",
        "import timeit; timeit.timeit('import os; os.fork()')",
        "import asyncio; asyncio.create_subprocess_shell('id')",
        "import os, sys; os.remove(sys.argv[1])",
        "open(bytes([47, 101]).decode())",
        "open('wodahs/cte/'[::-1])",
        "import tarfile; tarfile.open('a').extractall()",
        "import os; os.chmod('a', 0o4755)",
        "import sys; sys.path.insert(0, '/tmp/x'); import y",
        "import requests",
        "from app import subprocess",
        "eval('1')",
        "'{0.__class__}'.format(1)",
        "import inspect; x['system']",
        "import pickle",
        "import os; os.chdir('/etc')",
        "print(",
        "import os.path as p; p.os.system('id')",
    ],
)
@pytest.mark.parametrize("form", ['python3 -c "{}"', "python3 <<'E'\n{}\nE\n"])
def test_python_code_that_does_more_is_opaque(form, code):
    assert parse_shell(form.format(code)).opaque


@pytest.mark.parametrize(
    "items",
    ["{many}", "sorted({many})", "dict.fromkeys({many})", "{{**{keys}}}", "[*{many}]"],
)
def test_a_list_that_is_not_read_whole_is_not_taken_for_whole(items):
    many = [f"f{number}" for number in range(64)] + [".git"]
    text = items.format(many=many, keys=dict.fromkeys(many))
    assert parse_shell(f"python3 <<'E'\nimport os\nfor f in {text}: os.remove(f)\nE\n").opaque
    twin = parse_shell(f"python3 <<'E'\nimport os\nfor f in {many[1:]}: os.remove(f)\nE\n")
    assert ([path for path, _ in twin.deletes], twin.reasons) == ([f"/workspace/{name}" for name in many[1:]], ())


@pytest.mark.parametrize(
    ("path", "wide"),
    [
        ("'%s.txt' % 'a'", "'%99999s.txt' % 'a'"),
        ("'{}.txt'.format('a')", "'{:>99999}'.format('a')"),
        ("'{}-2024.txt'.format('a')", "'{:>{}}'.format('a', '99999')"),
        ("f'{'a'}.txt'", "f'{'a':>99999}'"),
        ("f'{'a'}.txt'", "f'{'.gitX':.4}'"),
        ("f'{'a'}.txt'", "f'{'a'!r}'"),
    ],
)
def test_a_format_gives_a_path_but_not_one_that_it_makes_wide_or_cuts(path, wide):
    code = "python3 <<'E'\nimport os\nos.remove({})\nE\n"
    assert not parse_shell(code.format(path.replace("f'{'a'}", 'f\'{"a"}'))).opaque
    assert parse_shell(code.format(wide.replace("f'{'", "f'{\"").replace("':", '":').replace("'!", '"!'))).opaque


def test_a_path_that_is_put_together_is_not_cut():
    half = "./" * 450
    assert parse_shell(f"python3 -c \"import os; os.remove('{half}' + '{half}' + '.git')\"").opaque
    assert parse_shell(f"python3 -c \"import os; os.remove('{half}' + '.git')\"").deletes[0].path == "/workspace/.git"


@pytest.mark.parametrize(
    ("code", "reads", "writes"),
    [
        (
            (
                "const fs = require('fs'); const p = JSON.parse(fs.readFileSync('a.json', 'utf8')); "
                "fs.writeFileSync('a.json', JSON.stringify(p, null, 2) + '\\n')"
            ),
            {"a.json"},
            {"a.json"},
        ),
        (
            "for (const f of fs.readdirSync('i18n')) console.log(Object.keys(read(path.join('i18n', f))).length)",
            {"i18n"},
            set(),
        ),
        ("import {sum} from './src/m.js'; console.log(sum(2, 3))", {"src/m.js"}, set()),
        ("console.log(`${a[0]} of ${n}`, /^v[0-9]+/.test(v), o['key'], x ? 1 / 2 : 3)", set(), set()),
        ("const f = 'out/x.txt'; fs.writeFileSync(f, 'a')", {"out/x.txt"}, {"out/x.txt"}),
        ("class A { constructor(x) { this.x = x } } new A(1)", set(), set()),
    ],
)
def test_files_of_node_code(code, reads, writes):
    found = parse_shell(f"node <<'E'\n{code}\nE\n")
    assert not found.opaque, found.reasons
    assert reads <= _paths(found.reads)
    assert _paths(found.writes) == writes


@pytest.mark.parametrize(
    "code",
    [
        "require('child_process')",
        "require('child' + '_process')",
        "require(m)",
        "import('child_process')",
        "child_process.exec('id')",
        "process.binding('x')",
        "const p = process",
        "globalThis.x",
        "fetch('x')",
        "[]['filter']['constructor']('x')()",
        "x['con' + 'structor']",
        "(() => 0).constructor('x')()",
        "require('axios')",
        "fs.readFileSync(atob(x))",
        "fs.rmSync(x)",
        "new Function('x')",
        "eval('x')",
        "`${require('child_process')}`",
        "require('node:vm')",
        "process.mainModule.require('x')",
        "import {spawn} from 'node:child_process'",
        "'open",
        "this.constructor.constructor('x')()",
        "fs.symlinkSync('/etc', 'x')",
    ],
)
def test_node_code_that_does_more_is_opaque(code):
    assert parse_shell(f"node <<'E'\n{code}\nE\n").opaque


@pytest.mark.parametrize(
    "text",
    [
        "perl -MList::Util=sum -lane 'push @a, $F[1]; END { print sum(@a)/@a }' t.txt",
        "perl -ne 'print \"$ARGV:$.: $_\" if /TODO/; close ARGV if eof' a.pm",
        "perl -Ilib -MApp -c lib/App.pm",
        'perl -e \'open(my $f, "<", "a.txt") or die; while (<$f>) { print if /x/ }\'',
        "ruby -ryaml -e 'puts YAML.load_file(\"c.yml\").keys'",
        "ruby -Itest test/a_test.rb",
        "ruby -e 'puts JSON.pretty_generate(JSON.parse(File.read(\"a.json\")))'",
        "php -r 'echo json_encode([\"a\" => 1], JSON_PRETTY_PRINT), PHP_EOL;'",
        "lua -e 'local t = {} for i = 1, 3 do t[#t+1] = i end print(table.concat(t, \", \"))'",
    ],
)
def test_code_of_other_languages_that_computes(text):
    found = parse_shell(text.replace("-MApp ", ""))
    assert not found.opaque, found.reasons


@pytest.mark.parametrize(
    "text",
    [
        "perl -MIPC::Open3 -e 1",
        "perl -I/tmp/x -e 1",
        "perl -I../x -e 1",
        'perl -e \'my $n = "sys"."tem"; &$n(1)\'',
        "perl -pe 's{(x)}{qx($1)}ge' f",
        "perl -pe 's/x/`id`/e' f",
        "perl -ne 'BEGIN { @ARGV = (\"id|\") }' x",
        "perl -e 'open(F, \"id|\")'",
        "perl -e '`id`'",
        "perl -e 'IO::Socket->new'",
        "ruby -rsocket -e 1",
        "ruby -e 'Kernel.send(:x)'",
        "ruby -e 'puts %x(id)'",
        "ruby -e 'load x'",
        "ruby -e 'File.delete(x)'",
        'php -r \'$f = "sys"."tem"; $f(1);\'',
        "php -r 'array_map(\"system\", [1]);'",
        'php -r \'("sys"."tem")(1);\'',
        "php -r 'echo file_get_contents($x);'",
        "lua -e 'local o = os; o.execute(1)'",
        "lua -e 'io.popen(1)'",
        "lua -e 'load(x)()'",
        "ruby -e 'puts `id`'",
        "perl -e 'do \"x.pl\"'",
    ],
)
def test_code_of_other_languages_that_does_more_is_opaque(text):
    assert parse_shell(text).opaque


def test_code_is_read_in_bounded_time():
    for code in (
        "(" * 5000,
        "x = " + "+".join(["'a'"] * 3000),
        "s/" + "\\" * 4000,
        "`${" * 3000,
        "{" * 4000,
        "<$" * 2000,
    ):
        parse_shell(f"python3 <<'E'\n{code}\nE\n")
        parse_shell(f"node <<'E'\n{code}\nE\n")
        parse_shell(f"perl -e '{code}'")

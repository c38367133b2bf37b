"""Builds and test suites as developers run them, in the image `dev`: left alone and seen whole, with an attack beside.

How many programs were executed is counted in the guest by a library that each of them loads, which knows nothing of
the monitor's reports.
"""

import pytest

from tests.system.monitor.test_rules import EXECUTES, FATAL, marked

#: One byte into a file for each program that is executed.
COUNTER = """
#include <fcntl.h>
#include <unistd.h>
__attribute__((constructor)) static void count(void) {
    int file = open("/workspace/executed", O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (file < 0 || write(file, "x", 1) != 1 || close(file) != 0) _exit(99);
}
"""

#: A suite that node runs with a process for each file; one forks, one has a shell and a process that outlives it.
NPM = """
mkdir -p npm/test && cd npm
cat > package.json <<'END'
{"name": "tiny", "version": "1.0.0", "scripts": {"pretest": "git --version", "test": "node --test test"}}
END
cat > test/fork.test.js <<'END'
const test = require('node:test'), assert = require('assert'), {fork} = require('child_process');
if (process.argv[2] === 'child') { process.send('up'); process.disconnect(); }
else test('fork', () => new Promise((done) => {
    fork(__filename, ['child']).on('message', (text) => { assert.equal(text, 'up'); }).on('exit', done);
}));
END
cat > test/spawn.test.js <<'END'
const test = require('node:test'), assert = require('assert'), {execSync, spawn} = require('child_process');
test('shell', () => { assert.equal(execSync('seq 50 | wc -l').toString().trim(), '50'); });
test('detached', () => { spawn('sleep', ['0.2'], {detached: true, stdio: 'ignore'}).unref(); });
END
npm test --offline
"""

#: 40 short shells, and a program of eight sources, four at a time.
MAKE = r"""
mkdir -p make && cd make
for i in 1 2 3 4 5 6 7 8; do printf 'int f%d(void) { return %d; }\n' $i $i > f$i.c; done
{ for i in 1 2 3 4 5 6 7 8; do echo "int f$i(void);"; done
  echo '#include <stdio.h>'; echo 'int main(void) { printf("%d\n", f1()+f2()+f3()+f4()+f5()+f6()+f7()+f8()); }'
} > main.c
cat > Makefile <<'END'
SOURCES := $(wildcard *.c)
MANY := $(shell seq 40)
all: sum $(MANY)
	./sum
sum: $(SOURCES:.c=.o)
	gcc -o $@ $^
%.o: %.c
	gcc -c -o $@ $<
$(MANY):
	@test -n "$@" && cat /etc/passwd | wc -l > /dev/null; true
.PHONY: all $(MANY)
END
make -j4
"""

PYTEST = r"""
mkdir -p pytest && cd pytest
for i in 1 2 3; do cat > test_$i.py <<'END'
import multiprocessing, subprocess, threading, pytest

def double(x):
    return 2 * x

@pytest.mark.parametrize("command, code", [("true", 0), ("exit 3", 3), ("kill -9 $$", -9)])
def test_shell(command, code):
    assert subprocess.run(command, shell=True).returncode == code

def test_pool():
    with multiprocessing.Pool(3) as pool:
        assert pool.map(double, range(20)) == [2 * x for x in range(20)]

def test_threads(tmp_path):
    made = [threading.Thread(target=subprocess.run, args=(["touch", tmp_path / str(i)],)) for i in range(8)]
    [thread.start() for thread in made], [thread.join() for thread in made]
    assert len(list(tmp_path.iterdir())) == 8
END
done
pytest -q -p no:cacheprovider
"""

#: What is run, what it says when all went well, and programs that it must have executed.
WORK = {
    "npm test": (NPM, "# pass 3", {"/usr/bin/node", "/usr/bin/git", "/usr/bin/sleep"}),
    "make -j4": (MAKE, "\n36\n", {"/usr/bin/make", "/usr/bin/seq", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1"}),
    "pytest": (PYTEST, "15 passed", {"/usr/bin/pytest", "/usr/bin/touch"}),
}
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/workspace", "TMPDIR": "/tmp"}


async def prepared(watched):
    """A sandbox of the image `dev` that holds the counter."""
    caller = await watched.caller("dev")
    built = await caller.run("gcc", "-x", "c", "-", "-shared", "-fPIC", "-o", "counter.so", stdin=COUNTER.encode())
    assert (built.ended.kind, built.ended.value) == ("exited", 0), built.err
    return caller


async def executed(caller):
    return int((await caller.sh("stat -c %s /workspace/executed")).text)


@pytest.mark.parametrize("work", WORK)
async def test_G56_real_work_is_left_alone_and_each_of_its_executions_is_judged(make, work):
    script, said, programs = WORK[work]
    watched = make()
    caller = await prepared(watched)
    await watched.settled()
    watched.judge.executed.clear()
    done = await caller.sh(script, env=ENVIRONMENT | {"LD_PRELOAD": "/workspace/counter.so"})
    assert (done.ended.kind, done.ended.value) == ("exited", 0), (done.text, done.err)
    assert said in done.text
    await watched.settled()
    judged = list(watched.judge.executed)
    assert watched.judge.breaches == []
    assert programs <= {path for _, path in judged}
    assert len({exec_id for exec_id, _ in judged}) == 1
    assert len(judged) == await executed(caller) > 10


ATTACKS = {
    "67": ("any", ("python3", "-c", FATAL, "165", "30"), "runtime.syscall.deny"),
    "68": (("python3",), ("python3", "-c", EXECUTES, "30", "/usr/bin/git", "--version"), "runtime.exec.unannounced"),
}


@pytest.mark.parametrize("rule", ATTACKS)
@pytest.mark.parametrize("work", WORK)
async def test_67_68_an_attack_beside_real_work_ends_and_the_work_does_not(make, work, rule):
    """The work is under way when the attack begins, and cannot end before the attack has."""
    granted, argv, named = ATTACKS[rule]
    script, said, _ = WORK[work]
    watched = make()
    caller = await watched.caller("dev")
    running = await caller.start(caller.launch("bash", "-c", f"echo begun\n({script}) && read line", env=ENVIRONMENT))
    await running.said(b"begun\n")
    watched.granted = granted
    attack = await caller.run(*argv)
    assert attack.ended.kind == "violation"
    assert named in attack.ended.detail
    await running.feed(b"go\n")
    running.end_input()
    done = await running.end()
    assert (done.ended.kind, done.ended.value) == ("exited", 0), (done.text, done.err)
    assert said in done.text
    watched.granted = "any"
    assert not await marked(caller)
    assert len(watched.judge.breaches) == 1

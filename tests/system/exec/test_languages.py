"""G56: what developers run, in the image `dev` through the whole daemon: its filter, its limits, and the shipped policy
but for the list of images, where a site names its own.
"""

import pathlib

import pytest

from opensafe.model.decision import Action
from opensafe.proof.planting import plant
from opensafe.proof.private import PREFIX
from tests.harness.policy import site_bundle
from tests.system.exec.support import Place

#: What is put into the workspace, what is run there, and what it must say.
RUNS = {
    "python": (
        {"main.py": "import asyncio, json, sqlite3, ssl, threading, zlib\nprint(json.dumps(sum(range(10))))\n"},
        "python3 main.py",
        b"45\n",
    ),
    "node": (
        {
            "main.js": "const {Worker} = require('worker_threads');\n"
            "new Worker('require(\"worker_threads\").parentPort.postMessage(6 * 7)', {eval: true})"
            ".on('message', (n) => console.log(n));\n"
        },
        "node main.js",
        b"42\n",
    ),
    "node-jit": (
        {"main.js": "let s = 0; for (let i = 0; i < 3e6; i++) s = (s + i * i) % 1000003;\nconsole.log(s > 0);\n"},
        "node main.js",
        b"true\n",
    ),
    "npm": (
        {"package.json": '{"name": "tiny", "version": "1.2.3", "scripts": {"build": "node -p 1+1"}}'},
        "npm run --silent build",
        b"2\n",
    ),
    "pip": (
        {
            "setup.py": "from setuptools import setup\nsetup(name='tiny', version='1', py_modules=['tiny'])\n",
            "tiny.py": "print('installed')\n",
        },
        "pip3 install -q --no-index --no-build-isolation --target lib . && PYTHONPATH=lib python3 -c 'import tiny'",
        b"installed\n",
    ),
    "pytest": ({"test_it.py": "def test_it():\n    assert True\n"}, "pytest -q | tail -1 | cut -c1-8", b"1 passed\n"),
    "c": (
        {"main.c": '#include <stdio.h>\nint main(void) { puts("compiled"); }\n'},
        "make --silent main && ./main",
        b"compiled\n",
    ),
    "git": (
        {"file": "text\n"},
        "git init -q . && git add file && git -c user.name=a -c user.email=a@b commit -qm one && git log --format=%s",
        b"one\n",
    ),
    "perl": ({"main.pl": "use threads; print join(',', map { $_ ** 2 } 1..3), \"\\n\";\n"}, "perl main.pl", b"1,4,9\n"),
    "bash": ({"main.sh": 'echo $((6 * 7)) | { read n; echo "$n"; }\n'}, "bash main.sh", b"42\n"),
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    def change(settings):
        settings["images"]["dev"] = "any"

    bundle, key = site_bundle(tmp_path_factory.mktemp("bundle"), change=change)
    return {"bundle": bundle, "key": key}


@pytest.fixture
async def place(daemon, agent):
    """A sandbox of the image `dev`."""
    session = await agent.create_session("tester")
    made = await agent.create_sandbox(session, template="dev")
    yield Place(daemon, agent, session, made.sandbox_id)
    await agent.close_session(session)


@pytest.mark.parametrize("language", RUNS)
async def test_G56_languages(place, reviewer, language):
    sources, command, said = RUNS[language]
    for name, text in sources.items():
        await place.script(name, text)
    done = await place.run("run", f"cd /workspace && {command}")
    if done.verdict.action is Action.REVIEW:  # packages are installed where somebody has agreed
        [waiting] = await reviewer.list_reviews()
        await reviewer.approve_review(waiting.review_id, waiting.digest)
        done = await place.run("run", f"cd /workspace && {command}")
    assert (done.stdout, done.outcome.exit_code) == (said, 0), (done.verdict, done.outcome, done.stderr)


@pytest.fixture(scope="module")
def opa():
    """A program that Go's compiler made: the one with which policies are built."""
    return pathlib.Path(PREFIX, "bin/opa").read_bytes()


async def test_G56_go(place, opa):
    await plant(place.client.files(place.session, place.sandbox), "/workspace/opa", opa, mode=0o755)
    done = await place.run("run", ["/workspace/opa", "eval", "--format", "raw", "sum(numbers.range(1, 9))"])
    assert (done.stdout, done.outcome.exit_code) == (b"45\n", 0), (done.verdict, done.outcome, done.stderr)

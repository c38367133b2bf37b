"""G68: the shipped policy, as it is, has nothing to say to ordinary work: read, edit, build, test, commit."""

from opensafe.model.decision import Action
from tests.harness.audit import records

APP = "def add(a, b):\n    return a - b\n\n\nif __name__ == '__main__':\n    print(add(2, 3))\n"
TEST = "import unittest\n\nfrom app import add\n\n\nclass Adds(unittest.TestCase):\n"
TEST += "    def test(self):\n        self.assertEqual(add(2, 3), 5)\n"
LIBRARY = "from setuptools import setup\n\nsetup(name='sums', version='1.0', py_modules=['app'])\n"
#: Of another length than what it replaces: Python knows a changed source by its second and its size.
PATCH = "--- a/src/app.py\n+++ b/src/app.py\n@@ -1,4 +1,4 @@\n def add(a, b):\n"
PATCH += "-    return a - b\n+    return sum((a, b))\n \n \n"

#: In order: what is asked (a text is one for Bash), and the exit code where it isn't 0.
WORK = (
    "git init -q -b main . && git config user.name Ada && git config user.email ada@example.com",
    "mkdir -p src tests && ls -la",
    ("Write", {"path": "src/app.py", "content": APP}),
    ("Write", {"path": "tests/test_app.py", "content": TEST}),
    ("Write", {"path": "setup.py", "content": LIBRARY}),
    ("Write", {"path": "README.md", "content": "# Sums\n"}),
    "printf '__pycache__/\\nbuild/\\n' > .gitignore",
    ("List", {"path": "src"}),
    ("Read", {"path": "src/app.py"}),
    "git add -A && git commit -qm 'First version' && git status --short",
    "PYTHONPATH=src python3 -m unittest discover -s tests 2>&1 | tail -n 3",
    ("PYTHONPATH=src python3 -m unittest discover -s tests", 1),
    "grep -rn 'def add' --include='*.py' . | head -20",
    "find . -name '*.py' -not -path './.git/*' | xargs wc -l",
    "sed -n '1,3p' src/app.py",
    "git switch -q -c fix/sum",
    ("Write", {"path": "fix.patch", "content": PATCH}),
    "git apply --check fix.patch && git apply fix.patch && rm fix.patch",
    "git diff --stat && git diff | cat",
    "sed -i 's/Sums/Sums of numbers/' README.md && cat README.md",
    "PYTHONPATH=src python3 -m unittest discover -s tests",
    "for f in src/*.py; do python3 -m py_compile \"$f\" || exit 1; done",
    ("Exec", {"argv": ["python3", "src/app.py"]}),
    "git commit -qam 'Add instead of subtract' && git log --oneline | head -5",
    "git switch -q main && git merge -q --no-ff -m 'Merge the fix' fix/sum && git branch -d fix/sum",
    "git show --stat HEAD~1 && git blame -L 1,2 src/app.py",
    "mkdir -p build && tar czf build/sums.tar.gz src setup.py README.md && tar tzf build/sums.tar.gz",
    "cp src/app.py build/ && mv build/app.py build/copy.py && diff src/app.py build/copy.py && rm -r build",
    "export LEVEL=debug; env | grep LEVEL; date +%Y; uname -s; which python3",
    "ps aux | head -3; df -h . | tail -1; du -sh .",
    "test -f src/app.py && echo there || echo absent",
    ("Stat", {"path": "src/app.py"}),
    "git tag v1.0 && git stash list && git status",
)  # fmt: skip


async def test_G68_a_day_of_ordinary_work_is_neither_blocked_nor_held_for_review(agent, session, sandbox):
    for number, step in enumerate(WORK):
        tool, arguments, code = "Bash", {"command": step}, 0
        if isinstance(step, tuple):
            if isinstance(step[1], int):
                arguments, code = {"command": step[0]}, step[1]
            else:
                tool, arguments = step
        done = await agent.run_call(session, sandbox, f"step-{number}", tool, arguments)
        assert done.verdict.action is Action.ALLOW, (step, done.verdict)
        assert done.outcome.exit_code == code, (step, done.outcome, done.stdout, done.stderr)
    kept = [record for record in await records(agent, 1000) if record.get("session_id") == session]
    assert [record for record in kept if record["kind"] in ("refusal", "review", "breach")] == []
    decided = [record["result"] for record in kept if record["kind"] == "decision" and record["purpose"] == "call"]
    assert [result["action"] for result in decided] == ["allow"] * len(WORK)
    assert [hit for result in decided for hit in result["rules"] if hit["action"] != "allow"] == []
    assert [hit for result in decided for hit in result.get("shadow", ())] == []


async def test_G68_twin_what_is_not_ordinary_is_still_asked_about(agent, session, sandbox):
    for number, (command, action) in enumerate(
        (("npm install left-pad", Action.REVIEW), ("git push origin main", Action.BLOCK), ("sudo make", Action.BLOCK))
    ):
        done = await agent.run_call(session, sandbox, f"odd-{number}", "Bash", {"command": command})
        assert done.verdict.action is action, (command, done.verdict)

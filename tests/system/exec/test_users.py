"""Calls as other users of the image: who they are, what they may, and what not even root can."""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from opensafe import errors
from opensafe.client import Ended, RunLimits, Started, Stdout, Terminal, collect
from opensafe.model.outcome import OutcomeKind
from tests.system import users
from tests.system.exec.support import until_output

NONE = "0" * 16
#: What a program is told of itself.
WHO = """
import json, os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
names = ("HOME", "USER", "LOGNAME")
print(json.dumps({
    "ids": [*os.getresuid(), *os.getresgid()], "groups": os.getgroups(), "cwd": os.getcwd(),
    "env": {name: os.environ.get(name) for name in names},
    "caps": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")], "bounding": status["CapBnd"],
    "nnp": status["NoNewPrivs"],
}))
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return users.settings(tmp_path_factory.mktemp("bundle"))


@pytest.fixture
def run_as(place):
    """run_as(user, text): a Python text as that user; what it printed, as JSON."""
    count = 0

    async def run(user, text, *, python=True):
        nonlocal count
        count += 1
        arguments = {"argv": ["python3", await place.script(f"text-{count}.py", text)]} if python else {"command": text}
        if user:
            arguments["user"] = user
        tool = "Exec" if python else "Bash"
        result = await place.client.run_call(place.session, place.sandbox, f"as-{count}", tool, arguments)
        assert result.outcome.exit_code == 0, (result.verdict.rules, result.outcome, result.stderr)
        return json.loads(result.stdout)

    return run


def call_as(place, user, call_id, command, **more):
    """The events of a Bash as that user."""
    arguments = {"command": command, "user": user}
    return place.client.call(place.session, place.sandbox, call_id, "Bash", arguments, **more)


@pytest.mark.parametrize(
    ("asked", "uid", "gid", "home", "name"),
    [
        ("nobody", 65534, 65534, "/nonexistent", "nobody"),
        ("65534", 65534, 65534, "/nonexistent", "nobody"),
        ("www-data", 33, 33, "/var/www", "www-data"),
        ("root", 0, 0, "/root", "root"),
        ("0", 0, 0, "/root", "root"),
    ],
)
async def test_a_call_runs_as_the_user_it_asks_for_by_name_or_number(run_as, asked, uid, gid, home, name):
    who = await run_as(asked, WHO)
    assert who["ids"] == [uid] * 3 + [gid] * 3
    assert who["groups"] == []
    assert who["env"] == {"HOME": home, "USER": name, "LOGNAME": name}
    assert who["cwd"] == "/workspace"
    assert (who["caps"], who["nnp"]) == ([NONE] * 4, "1")


async def test_who_asks_for_nobody_or_for_the_sandbox_s_own_uid_is_the_same(run_as):
    mine, named = await run_as("", WHO), await run_as("1000", WHO)
    assert mine == named
    assert mine["ids"] == [1000] * 6
    assert mine["env"] == {"HOME": "/workspace", "USER": None, "LOGNAME": None}


async def test_what_the_call_sets_comes_before_what_the_user_has(place):
    arguments = {"argv": ["printenv", "HOME", "USER"], "user": "nobody", "env": {"HOME": "/tmp"}}
    result = await place.client.run_call(place.session, place.sandbox, "env", "Exec", arguments)
    assert result.stdout == b"/tmp\nnobody\n"


@pytest.mark.parametrize("asked", ["nosuch", "4711", "Root", "990"])
async def test_an_unknown_user_is_a_typed_error_that_names_those_there_are(daemon, place, asked):
    starts = daemon.starts()
    with pytest.raises(errors.UnknownUser) as caught:
        await collect(call_as(place, asked, "unknown", "true"), 1)
    assert caught.value.value == asked
    assert {"root", "nobody"} < set(caught.value.limit.split(", "))
    assert caught.value.remedy
    assert daemon.starts() == starts
    # Nothing was decided, so the id is free for the request that is meant.
    assert (await collect(call_as(place, "nobody", "unknown", "true"), 1)).outcome.exit_code == 0


@pytest.mark.parametrize("asked", ["", "no body", "a:b", "../root", "x" * 33, "-1", "\x00", 0, ["root"]])
async def test_R34_what_can_be_no_user_is_refused(place, asked):
    with pytest.raises(errors.InvalidArgument):
        await collect(call_as(place, asked, "odd", "true"), 1)


async def test_a_user_that_is_not_granted_is_blocked_and_the_one_that_is_is_not(daemon, place):
    starts = daemon.starts()
    blocked = await collect(call_as(place, "daemon", "denied", "id -u"), 1024)
    assert blocked.outcome.kind is OutcomeKind.BLOCKED
    (rule,) = [rule for rule in blocked.verdict.rules if rule.action == "block"]
    assert (rule.id, "daemon" in rule.reason, "users" in rule.remedy) == ("caller.user.role", True, True)
    assert daemon.starts() == starts
    allowed = await collect(call_as(place, "nobody", "granted", "id -u"), 1024)
    assert (allowed.outcome.exit_code, allowed.stdout) == (0, b"65534\n")


async def test_the_shipped_policy_grants_nobody(own_daemon):
    daemon = own_daemon()
    async with daemon.client() as client:
        session = await client.create_session("tester")
        sandbox = (await client.create_sandbox(session)).sandbox_id
        for user in ("root", "nobody"):
            result = await client.run_call(session, sandbox, user, "Bash", {"command": "true", "user": user})
            assert result.outcome.kind is OutcomeKind.BLOCKED
        assert (await client.run_call(session, sandbox, "own", "Bash", {"command": "true"})).outcome.exit_code == 0
    assert daemon.stop() == 0


async def test_root_has_no_capability_and_no_power_over_what_is_others(place, run_as):
    await place.run("mine", "touch mine && chmod 600 mine && echo secret > mine")
    text = """
import json, os, stat
who = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
def tried(act):
    try:
        act()
    except OSError as error:
        return error.strerror
    return "done"
open("/tmp/own", "w").close()
print(json.dumps({
    "bounding": who["CapBnd"],
    "refused": {
        "chown": tried(lambda: os.chown("/tmp/own", 1000, 1000)),
        "mknod": tried(lambda: os.mknod("/tmp/device", stat.S_IFCHR | 0o600, os.makedev(1, 3))),
        "setuid": tried(lambda: os.setuid(1000)),
        "read": tried(lambda: open("/workspace/mine").read()),
        "write": tried(lambda: open("/workspace/new", "w")),
        "chmod": tried(lambda: os.chmod("/workspace/mine", 0o644)),
        "image": tried(lambda: open("/etc/motd", "a")),
    },
    "done": {
        "own": tried(lambda: os.chown("/tmp/own", 0, 0)),
        "fifo": tried(lambda: os.mknod("/tmp/fifo", stat.S_IFIFO | 0o600)),
        "shadow": tried(lambda: open("/etc/shadow").close()),
        "mode": tried(lambda: os.chmod("/tmp/own", 0o600)),
    },
}))
"""
    found = await run_as("root", text)
    assert found["bounding"] == NONE
    assert found["refused"].pop("setuid") == "Invalid cross-device link"  # the filter's answer
    assert set(found["refused"].values()) == {
        "Operation not permitted",
        "Permission denied",
        "Read-only file system",
    }, found
    assert set(found["done"].values()) == {"done"}
    assert (await place.run("still", "cat mine")).stdout == b"secret\n"


async def test_root_dies_of_a_mount_like_anybody_else(place):
    script = await place.script(
        "mount.py", "import ctypes\nctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None)\n"
    )
    for user in ("root", "nobody"):
        call = call_as(place, user, f"mount-{user}", f"python3 {script}; sleep 600", limits=RunLimits(wall_ms=60_000))
        outcome = (await collect(call, 1024)).outcome
        assert outcome.kind is OutcomeKind.VIOLATION, outcome
        assert "SIGSYS" in outcome.detail


async def test_a_set_user_id_program_raises_nobody(place, run_as):
    made = """
import json, os, shutil
shutil.copy("/usr/bin/id", "/tmp/raised")
os.chmod("/tmp/raised", 0o6755)
print(json.dumps(oct(os.stat("/tmp/raised").st_mode)))
"""
    assert (await run_as("root", made)).endswith("6755")
    used = "import json, subprocess\nprint(json.dumps(subprocess.check_output(['/tmp/raised', '-u'], text=True)))\n"
    assert await run_as("", used) == "1000\n"
    assert await run_as("nobody", used) == "65534\n"
    assert await run_as("root", used) == "0\n"


#: Every process that is there, and what may be done to it. The twin is a child of one's own.
REACH = """
import ctypes, json, os, signal, subprocess
own = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
own.stdin.write(b"x")
own.stdout.read(1)  # it is what it shall be: an execve under way hides it
libc = ctypes.CDLL(None, use_errno=True)
def tried(act):
    try:
        act()
    except OSError:
        return False
    return True
def reach(pid):
    return {
        "signal": tried(lambda: os.kill(pid, 0)),
        "memory": tried(lambda: open(f"/proc/{pid}/mem", "rb").close()),
        "environment": tried(lambda: open(f"/proc/{pid}/environ", "rb").read()),
        "descriptors": tried(lambda: [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]),
    }
found = {"own": reach(own.pid), "others": {}}
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) not in (os.getpid(), own.pid):
        try:
            what = open(f"/proc/{name}/comm").read().strip().partition(":")[0]
        except OSError:
            continue
        found["others"][f"{what} {name}"] = reach(int(name))
own.kill()
print(json.dumps(found))
"""


@pytest.mark.parametrize("user", ["root", "nobody"])
async def test_no_user_reaches_a_runner_the_init_or_another_user_s_program(place, run_as, user):
    await place.background("neighbour", "sleep 1000")
    await place.run("wait", "true")  # after it, a runner waits
    found = await run_as(user, REACH)
    assert set(found["own"].values()) == {True}
    names = {name.partition(" ")[0] for name in found["others"]}
    assert {"init", "run", "sleep"} <= names, names
    reached = {name: how for name, how in found["others"].items() if any(how.values())}
    assert reached == {}
    assert (await place.run("after", "true")).outcome.exit_code == 0


@pytest.mark.parametrize("user", ["root", "nobody"])
async def test_R2_a_tree_of_another_user_is_killed_as_a_whole_and_a_neighbour_lives(place, user):
    script = await place.script(
        "daemon.py",
        "import os, time\n"
        "for _ in range(2):\n"
        "    if os.fork():\n"
        "        time.sleep(1000)\n"
        "    os.setsid()\n"
        "for _ in range(3):\n"
        "    os.fork()\n"
        "print('up', flush=True)\n"
        "time.sleep(1000)\n",
    )
    await place.background("neighbour", "sleep 1000")
    call = call_as(place, user, "tree", f"exec python3 {script}")
    seen = b""
    async for event in call:
        if isinstance(event, Stdout):
            seen += event.data
            if seen.count(b"up") == 8:
                await call.cancel()
        if isinstance(event, Ended):
            assert event.outcome.kind is OutcomeKind.CANCELLED
    assert "python3" not in place.processes()
    assert place.processes().count("sleep") == 1


async def test_a_deadline_holds_for_another_user(place):
    result = await collect(call_as(place, "root", "late", "sleep 1000", limits=RunLimits(wall_ms=400)), 1)
    assert result.outcome.kind is OutcomeKind.DEADLINE
    assert "sleep" not in place.processes()


@pytest.mark.parametrize(("user", "uid"), [("root", 0), ("nobody", 65534)])
async def test_a_terminal_belongs_to_the_user(place, user, uid):
    script = await place.script(
        "tty.py", "import os\nprint(os.fstat(0).st_uid, os.ttyname(0), os.open('/dev/tty', os.O_RDWR) > 0)\n"
    )
    terminal = Terminal(columns=80, rows=24)
    result = await collect(call_as(place, user, "tty", f"python3 {script}", terminal=terminal), 1024)
    assert result.stdout.split() == [str(uid).encode(), b"/dev/pts/0", b"True"]


async def test_a_kept_call_of_another_user_can_be_attached_to(place):
    script = await place.script("wait.sh", "id -u\nuntil test -e /tmp/go; do sleep 0.1; done\necho word\n")
    started = [event async for event in call_as(place, "root", "kept", f"bash {script}", background=True, tag="root")]
    assert isinstance(started[-1], Started)
    attached = place.attach(tag="root")
    assert await until_output(attached, b"0\n") == b"0\n"
    await attached.aclose()
    await place.run("go", "touch /tmp/go")
    result = await collect(place.attach("kept"), 1024)
    assert (result.outcome.exit_code, result.stdout) == (0, b"0\nword\n")


async def test_without_a_sandbox_the_question_is_about_the_base_image(agent, session):
    verdict = await agent.decide(session, "Bash", {"command": "ls", "user": "nobody"})
    assert verdict.action == "allow"
    verdict = await agent.decide(session, "Bash", {"command": "ls", "user": "daemon"})
    assert verdict.action == "block"
    with pytest.raises(errors.UnknownUser):
        await agent.decide(session, "Bash", {"command": "ls", "user": "nosuch"})


async def test_the_command_line_has_it(daemon, sandbox):
    command = [sys.executable, "-m", "opensafe.cli", "run", "--sandbox", sandbox, "--user", "www-data", "id", "-un"]
    environment = {**os.environ, "OPENSAFE_SOCKET": str(daemon.socket_of("agent"))}
    done = await asyncio.to_thread(subprocess.run, command, env=environment, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"www-data\n"), done.stderr


async def test_what_ran_as_another_user_is_recomputed_by_replay(own_daemon, settings):
    daemon = own_daemon(**settings)
    async with daemon.client() as client:
        session = await client.create_session("tester")
        sandbox = (await client.create_sandbox(session)).sandbox_id
        arguments = {"command": "cat ~/x || id -u", "user": "root"}
        assert (await client.run_call(session, sandbox, "root", "Bash", arguments)).outcome.exit_code == 0
    assert daemon.stop() == 0
    log = daemon.state / "audit" / "segment-000000.jsonl"
    records = [json.loads(line) for line in log.read_text().splitlines()]
    (decided,) = [record for record in records if record.get("call_id") == "root" and record["kind"] == "decision"]
    assert decided["input"]["call"]["user"] == {"name": "root", "uid": 0, "gid": 0, "groups": [], "home": "/root"}
    assert decided["result"]["grant"]["users"] == ["nobody", "root", "www-data"]
    assert [fact["path"] for fact in decided["input"]["call"]["reads"]] == ["/root/x"]
    command = [sys.executable, "-m", "opensafe.cli", "audit", "verify", "--state", daemon.state, "--replay"]
    verified = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert verified.returncode == 0, verified.stdout + verified.stderr

"""What the seccomp profiles answer in the guest, with the same attempt unfiltered beside it."""

import errno
import hashlib
import json

import pytest

from opensafe.warden import selftest
from opensafe.warden.sandbox import layout
from opensafe.warden.sandbox.control import ControlDriver
from opensafe.warden.sandbox.profiles import PROFILES
from opensafe.warden.sandbox.syscalls import NUMBERS
from tests.system.warden.guest_programs import ANSWERS

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: name, number, arguments: out of policy, harmless, and granted by gVisor without a filter.
DENIED = {
    "unshare": (272, "0"),
    "ptrace-traceme": (101, "0"),
    "shmget": (29, "0", "4096", "0x380"),
    "personality-addr-no-randomize": (135, "0x0040000"),
    "socket-packet": (41, "17", "3", "0"),
    "socket-raw": (41, "2", "3", "1"),
    "socket-alg": (41, "38", "5", "0"),
    "ioctl-tiocsti": (16, "0", "0x5412", "0"),
    "ioctl-tiocsti-high-bits": (16, "0", "0x100005412", "0"),
    "prctl-subreaper": (157, "36", "1"),
    "prctl-subreaper-high-bits": (157, "0x100000024", "1"),
    "clone-newuser": (56, "0x10000011", "0"),
    "process-vm-readv": (310, "1", "0", "0", "0", "0", "0"),
    "keyctl": (250, "0", "0", "0"),
}

UNAVAILABLE = {"clone3": 435, "faccessat2": 439, "fchmodat2": 452, "openat2": 437, "io_uring_setup": 425}

FATAL = {
    "bpf": 321,
    "mount": 165,
    "umount2": 166,
    "setns": 308,
    "pivot_root": 155,
    "reboot": 169,
    "kexec_load": 246,
    "init_module": 175,
    "finit_module": 313,
    "delete_module": 176,
    "swapon": 167,
    "perf_event_open": 298,
}


@pytest.fixture(scope="module")
def probe(warden, box):
    """The self-test's own hands: confined as a call is, and the same unfiltered."""
    return selftest.Probe(warden._layout, ControlDriver(warden._layout), warden._programs, box.spec.sandbox_id)


@pytest.mark.parametrize("name", DENIED)
async def test_what_is_in_no_list_answers_exdev(probe, name):
    number, *arguments = DENIED[name]
    assert await probe.confined("syscall", str(number), *arguments) == f"errno=EXDEV/{errno.EXDEV}"
    # The control: it is the filter that says so.
    assert "EXDEV" not in await probe.unfiltered("syscall", str(number), *arguments)


@pytest.mark.parametrize("name", ["unshare", "prctl-subreaper"])
async def test_the_sentry_would_have_granted_it(probe, name):
    number, *arguments = DENIED[name]
    assert (await probe.unfiltered("syscall", str(number), *arguments)).startswith("result=")


@pytest.mark.parametrize(
    ("number", "arguments"),
    [(41, ("2", "1", "0")), (41, ("10", "2", "0")), (41, ("16", "3", "0")), (157, ("38", "1")), (135, ("0xffffffff",))],
)
async def test_the_benign_twin_is_allowed(probe, number, arguments):
    assert (await probe.confined("syscall", str(number), *arguments)).startswith("result=")


@pytest.mark.parametrize("name", UNAVAILABLE)
async def test_what_libc_tries_first_answers_enosys(probe, name):
    assert await probe.confined("syscall", str(UNAVAILABLE[name])) == f"errno=ENOSYS/{errno.ENOSYS}"


async def test_openat2_exists_without_the_filter(probe):
    assert "ENOSYS" not in await probe.unfiltered("syscall", str(UNAVAILABLE["openat2"]), "0", "0", "0", "0")


@pytest.mark.parametrize("name", FATAL)
async def test_what_no_honest_program_does_kills_it(box, probe, name):
    done = await box.run("/.opensafe/probe", "syscall", str(FATAL[name]))
    assert (done.ended.kind, done.ended.value) == ("signalled", 31)
    assert (await probe.unfiltered("syscall", str(FATAL[name]))).startswith("errno=")


async def test_numbers_of_other_architectures_are_refused(probe):
    """x32 numbers have bit 30 set."""
    assert await probe.confined("syscall", str(0x40000000 + 39)) == f"errno=EXDEV/{errno.EXDEV}"


async def test_every_number_answers_as_its_profile_says(box):
    """0 to 600 and x32: EXDEV but for what the profile names."""
    profile = PROFILES["default"]
    allowed, fatal, unavailable, conditional = (
        {NUMBERS[name] for name in names}
        for names in (profile.allowed, profile.fatal, profile.unavailable, profile.conditional)
    )
    denied = {*range(601), *(0x40000000 + number for number in range(601))}
    denied -= allowed | fatal | unavailable | conditional
    script = ("python3", "-c", ANSWERS)
    done = await box.run(*script, json.dumps(sorted(denied | unavailable)), json.dumps(sorted(allowed | fatal)))
    assert (done.ended.kind, done.ended.value) == ("exited", 0), done
    answers = {int(number): answer for number, answer in json.loads(done.text).items()}
    assert {answers[number] for number in denied} == {"EXDEV"}
    assert {answers[number] for number in unavailable} == {"ENOSYS"}
    assert {answers[number] for number in fatal} == {"SIGSYS"}
    assert not {"EXDEV", "SIGSYS"} & {answers[number] for number in allowed}


async def test_the_file_profile_lets_its_program_work(box):
    await box.sh("echo content > /workspace/a")
    done = await box.run("/.opensafe/file", "read", "/workspace", "a", profile="file")
    assert (done.ended.value, done.text) == (0, "content\n")
    decided = ("--mode", "600", "--max", "100", "--sha256", hashlib.sha256(b"new").hexdigest())
    done = await box.run("/.opensafe/file", "write", "/workspace", "b", *decided, stdin=b"new", profile="file")
    assert (done.ended.kind, done.ended.value) == ("exited", 0)
    done = await box.run("/.opensafe/file", "list", "/workspace", ".", profile="file")
    assert done.ended.value == 0
    assert b"a" in done.out
    assert (await box.sh("cat /workspace/b; rm /workspace/?")).text == "new"


async def test_the_file_profile_lets_no_other_program_work(box):
    done = await box.run("/bin/true", profile="file")
    assert (done.ended.kind, done.ended.value) != ("exited", 0)


@pytest.mark.parametrize(
    "script",
    [
        "python3 -c 'import threading, subprocess, socket, sqlite3, multiprocessing as m; m.Pool(2).map(abs, [1, 2])'",
        "cd $(mktemp -d); git init -q .; echo a > f; git add f; git -c user.name=a -c user.email=a@b commit -qm m",
        "set -o pipefail; find /usr/bin | sort | xargs ls -l | tail -1 | tr a-z A-Z",
        "cd $(mktemp -d); cp --reflink=auto /bin/true t && cp -a t u && mv u v && mkfifo p && chmod 700 t && rm *",
        # As make starts each of its programs.
        'python3 -c \'import os; os.waitpid(os.posix_spawn("/bin/true", ["true"], {}, resetids=True), 0)\'',
        "curl -sS file:///etc/passwd -o /dev/null",
        "tar cf - /etc/alternatives 2>/dev/null | tar tf - | wc -l",
        'perl -e \'system("true"); open(F, "<", "/etc/passwd"); print scalar(<F>)\'',
    ],
)
async def test_ordinary_programs_work_under_the_filter(box, script):
    done = await box.sh(script)
    assert (done.ended.kind, done.ended.value, done.err) == ("exited", 0, b""), done


@pytest.mark.parametrize("call", ["resuid", "resgid"])
@pytest.mark.parametrize("other", [0, layout.SUPERVISOR_UID, layout.COMMAND_UID + 1])
async def test_no_program_becomes_another(box, probe, call, other):
    """The calls that the filter lets through for make: they take a program's own ids, and no others."""
    script = f"import os; own = os.get{call}(); os.set{call}(*own); print('own'); os.set{call}(-1, {other}, -1)"
    done = await box.run("python3", "-c", script)
    assert (done.ended.value, done.text) == (1, "own\n")
    assert done.err.endswith(b"PermissionError: [Errno 1] Operation not permitted\n")
    number = {"resuid": 117, "resgid": 119}[call]
    # It is the sentry that refuses it, which knows of no capability to do so.
    assert await probe.unfiltered("syscall", str(number), "-1", str(other), "-1") == f"errno=EPERM/{errno.EPERM}"

"""The programs of guests: RS-01 to RS-09, and what in the host's counts is a breach."""

from typing import Final

from opensafe.model.limits import CallLimits, SandboxLimits
from opensafe.proof.escape.weakening import Weakening

from .guest import Guest, Row, Seen

_MIB: Final = 1 << 20
_TASKS: Final = 128
_MEMORY: Final = 192 * _MIB
_CORES: Final = 0.15
#: By how much more than allowed may be measured.
_IMPRECISE: Final = 1.5
#: What each memory file system may hold, and what is written to it.
_FILES: Final = 8 * _MIB
_FILL: Final = 48 * _MIB
#: A sandbox's memory for less than this much more says nothing: the guest's own programs come and go.
_NOISE: Final = 24 * _MIB
#: By how much a page more than allowed is told, since the kernel counts in batches.
_BATCH: Final = _MIB
#: Files on the host, of which a sandbox has some of its own.
_INODES: Final = 256

_FORKS: Final = """
import time
children = []
try:
    for _ in range(300):
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        children.append(child)
except OSError as error:
    print("forks end:", error, flush=True)
print(len(children), "forked", flush=True)
for child in children:
    os.kill(child, 9)
"""
_THREADS: Final = """
import threading, time
threading.stack_size(1 << 18)
wait = os.pipe()[0]

def idle(count):
    begun = 0
    try:
        for _ in range(count):
            threading.Thread(target=os.read, args=(wait, 1), daemon=True).start()
            begun += 1
    except RuntimeError as error:
        print("threads end:", error, flush=True)
    return begun

print(idle(300), "threads idle", flush=True)
children = []
try:
    for _ in range(90):
        child = os.fork()
        if child == 0:
            idle(8)
            time.sleep(60)
            os._exit(0)
        children.append(child)
except OSError as error:
    print("forks end:", error, flush=True)
print(len(children), "processes of threads", flush=True)
time.sleep(0.5)
for child in children:
    os.kill(child, 9)
"""
_MEMORY_EATEN: Final = """
import mmap
kept = []
try:
    for _ in range(40):
        kept.append(mmap.mmap(-1, 8 << 20))
        for page in range(0, 8 << 20, 4096):
            kept[-1][page] = 1
except (OSError, MemoryError) as error:
    print("memory ends:", error, flush=True)
print(len(kept) * 8, "MiB touched", flush=True)
"""
_FILLED: Final = """
def fill(path):
    written = 0
    with open(path, "wb", buffering=0) as file:
        try:
            while written < {size}:
                written += file.write(bytes(1 << 20))
        except OSError as error:
            print(path, "ends:", error, flush=True)
    print(path, written, flush=True)

for path in {paths}:
    fill(path)
"""
_MANY_FILES: Final = """
top = "/mnt" if os.path.ismount("/mnt") else "/workspace"
made = 0
try:
    for number in range(20_000):
        os.close(os.open(f"{top}/{number}", os.O_CREAT | os.O_WRONLY))
        made += 1
    os.chdir(top)
    for _ in range(500):
        os.mkdir("d" * 60)
        os.chdir("d" * 60)
except OSError as error:
    print("files end:", error, flush=True)
print(made, "files", flush=True)
"""
_SPIN: Final = """
import time
end = time.monotonic() + 1.6
for _ in range(3):
    if os.fork() == 0:
        break
while time.monotonic() < end:
    pass
"""


def _over_tasks(seen: Seen) -> str:
    return f"{seen.tasks} tasks on the host, where {_TASKS} are allowed" if seen.tasks > _TASKS else ""


def _tasks_stopped(seen: Seen) -> str:
    if not seen.refused_tasks:
        return ""
    return f"the group's pids.max: {seen.refused_tasks} clones refused, the sandbox ended of {seen.ended}"


def _tasks_refused(seen: Seen) -> str:
    return f"the call's limit of processes, at {seen.tasks} tasks on the host"


def _over_memory(seen: Seen) -> str:
    return f"{seen.memory} bytes on the host, where {_MEMORY} are allowed" if seen.memory > _MEMORY + _BATCH else ""


def _memory_stopped(seen: Seen) -> str:
    if not seen.ended:
        return ""
    return f"the group's memory: at {seen.memory} bytes, {seen.killed} killed, the sandbox ended of {seen.ended}"


def _memory_refused(seen: Seen) -> str:
    return f"the call's address space, at {seen.memory} bytes on the host"


def _over_files(seen: Seen) -> str:
    return f"{seen.grown} bytes kept on the host, where {_FILES} each are allowed" if seen.grown > _NOISE else ""


def _files_stopped(seen: Seen) -> str:
    return f"the file system's own size: {max(seen.grown, 0)} bytes more on the host"


def _over_inodes(seen: Seen) -> str:
    return f"{seen.inodes} files on the host" if seen.inodes > _INODES else ""


def _inodes_stopped(seen: Seen) -> str:
    return f"a workspace in the sentry's memory: {max(seen.inodes, 0)} files more on the host"


def _over_cores(seen: Seen) -> str:
    return f"{seen.cores:.2f} processors, where {_CORES} are allowed" if seen.cores > _IMPRECISE * _CORES else ""


def _cores_stopped(seen: Seen) -> str:
    if not seen.throttled:
        return ""
    return f"the group's share of the processors: held back in {seen.throttled} periods, {seen.cores:.2f} at most"


FORKS: Final = Guest(
    Row(
        program=_FORKS,
        sandbox=SandboxLimits(pids=_TASKS),
        call=CallLimits(processes=40),
        weak=Weakening(unlimited=True),
        found=_over_tasks,
        layer=_tasks_stopped,
        own=_tasks_refused,
    )
)
THREADS: Final = Guest(
    Row(
        program=_THREADS,
        sandbox=SandboxLimits(pids=_TASKS),
        call=CallLimits(processes=40),
        env={"MALLOC_ARENA_MAX": "1"},
        weak=Weakening(unlimited=True),
        found=_over_tasks,
        layer=_tasks_stopped,
        own=_tasks_refused,
    )
)
MEMORY: Final = Guest(
    Row(
        program=_MEMORY_EATEN,
        sandbox=SandboxLimits(memory_bytes=_MEMORY),
        call=CallLimits(address_space_bytes=128 * _MIB),
        weak=Weakening(unlimited=True),
        found=_over_memory,
        layer=_memory_stopped,
        own=_memory_refused,
    )
)
TEMPORARY: Final = Guest(
    Row(
        program=_FILLED.format(size=_FILL, paths=("/tmp/f", "/dev/shm/f")),  # noqa: S108 - paths in the guest
        sandbox=SandboxLimits(memory_bytes=512 * _MIB, tmp_bytes=_FILES, shm_bytes=_FILES),
        weak=Weakening(unsized=True),
        found=_over_files,
        layer=_files_stopped,
    )
)
WORKSPACE: Final = Guest(
    Row(
        program=_FILLED.format(size=_FILL, paths=("/workspace/f",)),
        sandbox=SandboxLimits(memory_bytes=512 * _MIB, workspace_bytes=_FILES),
        weak=Weakening(unsized=True),
        found=_over_files,
        layer=_files_stopped,
    )
)
INODES: Final = Guest(Row(program=_MANY_FILES, host_files=True, found=_over_inodes, layer=_inodes_stopped))
CORES: Final = Guest(
    Row(
        program=_SPIN,
        sandbox=SandboxLimits(cpu_millis=int(_CORES * 1000)),
        weak=Weakening(unlimited=True),
        found=_over_cores,
        layer=_cores_stopped,
    )
)

"""A probe's program in the guest: its facts, a prelude, its own lines; and what its output tells.

Python without anything that has to be installed. The same text runs in a sandbox and, as the control, where nothing is
in its way. Each attempt has a child of its own, because a call filter may answer with a signal that kills.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

_BEGAN: Final = "probe began "
_DONE: Final = "probe done"
_TRIED: Final = "tried "
#: How an attempt ended that nobody refused; what it is worth, the host knows.
_NO_REFUSAL: Final = "done"
#: The layer where nobody refused any.
HARMLESS: Final = "granted, and harmless"

_PRELUDE: Final = '''
import ctypes, errno, os, signal, socket, stat, struct, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = libc.mmap.restype = ctypes.c_void_p
#: What goes through whatever it finds does so in a guest alone: the host has more than what was planted.
GUEST = os.path.isdir("/.opensafe")

def show(data):
    """What was got, for the host to see."""
    os.write(1, (data if isinstance(data, bytes) else str(data).encode("utf-8", "surrogateescape")) + b"\\n")

def say(what, outcome):
    show("tried %s: %s" % (what, outcome))

def attempt(what, work, *words, wait=20):
    """Try it in a child, for so many seconds; say how it ended, and show what it returned."""
    child = os.fork()
    if not child:
        signal.alarm(wait)
        try:
            answer = work(*words)
            say(what, "done")
            show(answer if isinstance(answer, bytes) else repr(answer))
        except OSError as error:
            say(what, errno.errorcode.get(error.errno) or repr(error))
        except BaseException as error:
            say(what, type(error).__name__ + " " + str(error)[:120])
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        say(what, signal.Signals(os.WTERMSIG(status)).name)

def call(name, *words):
    """A function of the C library's; raises OSError. Of "syscall" the first word is the number."""
    result = getattr(libc, name)(*[w.encode() if isinstance(w, str) else w for w in words])
    if result in (-1, 2**64 - 1):
        raise OSError(ctypes.get_errno(), name)
    return result

def read(path, size=4096):
    with open(path, "rb", buffering=0) as file:
        return file.read(size)

def write(path, data, flags=os.O_WRONLY | os.O_CREAT):
    file = os.open(path, flags, 0o666)
    try:
        return os.write(file, data if isinstance(data, bytes) else data.encode())
    finally:
        os.close(file)

def names(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []

def pids():
    return [int(name) for name in names("/proc") if name.isdigit()] if GUEST else []

def walk(*roots, most=20000):
    """Paths below these, but not below /proc and /sys."""
    seen = 0
    for root in roots:
        for directory, below, files in os.walk(root):
            below[:] = [name for name in below if os.path.join(directory, name) not in ("/proc", "/sys")]
            for name in below + files:
                seen += 1
                if seen > most:
                    return
                yield os.path.join(directory, name)
'''

#: What a word in an attempt's outcome says of who answered. Under a profile, for what no profile has.
_ANSWERS: Final = {
    "SIGSYS": "call filter: SIGSYS",
    "EXDEV": "call filter: EXDEV",
    "ENOSYS": "not implemented: ENOSYS",
    "EPERM": "no permission: EPERM",
    "EACCES": "no permission: EACCES",
    "EROFS": "read-only: EROFS",
    "ENOENT": "not there: ENOENT",
    "ENOTDIR": "not there: ENOTDIR",
    "ESRCH": "no such process: ESRCH",
    "ENODEV": "no such file system or device: ENODEV",
    "ENXIO": "no such device: ENXIO",
    "EOPNOTSUPP": "not supported: EOPNOTSUPP",
    "ENOTSUP": "not supported: EOPNOTSUPP",
    "EINVAL": "not supported: EINVAL",
    "ECONNREFUSED": "nobody listens: ECONNREFUSED",
    "ENOTTY": "not of this file: ENOTTY",
    "EBADF": "no such descriptor: EBADF",
    "ESTALE": "no such handle: ESTALE",
    "SIGALRM": "nothing happened in time",
    "Kept its user": "execve: neither set-id bits nor capabilities of files count",
}
#: The same of programs that say it in words.
_IN_WORDS: Final = {
    "No such file or directory": "not there",
    "Permission denied": "no permission",
    "permission denied": "no permission",
    "Operation not permitted": "no permission",
    "Read-only file system": "read-only",
    "No such process": "no such process",
    "Function not implemented": "not implemented",
    "Invalid cross-device link": "call filter: EXDEV",
    "Bad system call": "call filter: SIGSYS",
    "not found": "not there",
}


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What an output says of its own run. hints: a line for each attempt that says how it ended."""

    began: bool
    finished: bool
    hints: tuple[str, ...]
    layer: str


def build(program: str, facts: Mapping[str, object], mark: str) -> str:
    """The whole program. mark: of this run, by which its beginning is known."""
    lines = [f"{name} = {value!r}" for name, value in facts.items()]
    return "\n".join([*lines, _PRELUDE, f"show({_BEGAN + mark!r})", program.strip(), f"show({_DONE!r})", ""])


def told(output: bytes, mark: str, *, filtered: bool = True) -> Told:
    """Of a program that `build` made. filtered: it ran under a profile."""
    lines = output.decode(errors="replace").splitlines()
    hints = tuple(line for line in lines if line.startswith(_TRIED))
    answers = [hint.rpartition(": ")[2] for hint in hints]
    layers = dict.fromkeys(_layer(answer, filtered=filtered) for answer in answers if answer != _NO_REFUSAL)
    return Told(
        began=_BEGAN + mark in lines,
        finished=_DONE in lines,
        hints=hints,
        layer=", ".join(layers) or ("nothing there to try it on" if not hints else HARMLESS),
    )


def in_words(output: bytes) -> str:
    """What stopped a program that says so in a sentence, as shells do."""
    text = output.decode(errors="replace")
    return ", ".join(dict.fromkeys(layer for words, layer in _IN_WORDS.items() if words in text))


def _layer(answer: str, *, filtered: bool) -> str:
    """In words; as it is, where there are none for it."""
    if answer == "EXDEV" and not filtered:
        return "across mounts: EXDEV"
    return _ANSWERS.get(answer, answer)

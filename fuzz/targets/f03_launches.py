"""F3: an allowed call and its verdict to what is started: the sandbox's OCI configuration and the program's plan.

References: the configuration that the daemon is to make, written down here; the grant and the call, of which the plan
may use no more; a reader of the runner's packet.
"""

import pathlib
import posixpath
import re
import struct
from typing import Any, Final

import msgspec

from opensafe.errors import OpenSafeError
from opensafe.model.calls import ToolCall
from opensafe.model.decision import Grant
from opensafe.model.sandbox import Asked, Launch, SandboxSpec, User
from opensafe.normalize.tools import DEFAULT_REGISTRY
from opensafe.policy.subject import build_launch
from opensafe.proof.fuzzing import values
from opensafe.proof.fuzzing.draw import Draw
from opensafe.proof.fuzzing.target import Target, holds
from opensafe.proof.mutants import Mutant
from opensafe.warden.sandbox import runner
from opensafe.warden.sandbox.spec import Places, oci_spec

_PLACES: Final = Places(
    rootfs=pathlib.Path("/var/lib/images/base/rootfs"), guest_tools=pathlib.Path("/usr/libexec/opensafe/guest"),
    resolv_conf=pathlib.Path("/run/opensafe/bundles/x/resolv.conf"),
    hosts=pathlib.Path("/run/opensafe/bundles/x/hosts"),
    network=pathlib.Path("/run/opensafe/netns/x"),
)  # fmt: skip
_BOUND: Final = {
    "/.opensafe": str(_PLACES.guest_tools), "/etc/resolv.conf": str(_PLACES.resolv_conf),
    "/etc/hosts": str(_PLACES.hosts),
}  # fmt: skip
_MEMORY: Final = {"/tmp": "tmp_bytes", "/dev/shm": "shm_bytes", "/workspace": "workspace_bytes"}  # noqa: S108 - paths in the guest
_KEYS: Final = {"ociVersion", "hostname", "root", "process", "mounts", "linux"}
_CAPABILITIES: Final = {"CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP"}
_USERS: Final = (
    None, User(name="root", uid=0, gid=0, home="/root"), User(name="nobody", uid=65534, gid=65534, groups=(1, 2)),
    User(name="toor", uid=0, gid=0),
)  # fmt: skip
_CALLS: Final = (
    ("Bash", {"command": "make"}),
    ("Bash", {"command": "a\nb", "env": {"PATH": "/x", "LD_PRELOAD": "y"}, "cwd": "/workspace/a"}),
    ("Exec", {"argv": ["git", "--", "-c"], "timeout_ms": 50}), ("Exec", {"argv": ["--uid", "0"], "user": "root"}),
    ("Read", {"path": "/workspace/a"}), ("Write", {"path": "a", "content": "b"}), ("List", {"path": "."}),
    ("Bash", {"command": "id", "user": "nobody", "timeout_ms": 3_600_000}), ("Exec", {"argv": ["id"], "user": "0"}),
)  # fmt: skip
_GRANTS: Final[tuple[dict[str, Any], ...]] = (
    {"users": ["root"], "seccomp": "default"}, {"users": [], "seccomp": "file", "limits": {"wall_ms": 50}},
    {"users": ["toor", "nobody"]},
    {"users": ["root", "nobody"], "paths": {"read": ["/workspace"], "write": ["/workspace"]}},
)  # fmt: skip


def one(data: bytes) -> None:
    """Configure a sandbox of a drawn specification, or plan a drawn call under a drawn grant."""
    draw = Draw(data)
    if draw.flag():
        _sandbox(draw)
    else:
        _launch(draw)


def _sandbox(draw: Draw) -> None:
    template = draw.pick(("base", "python", "a-b", "Base", "../x"))
    asked = msgspec.to_builtins(SandboxSpec(sandbox_id="sb-0123456789abcdef0123"))
    asked["template"] = template
    for _ in range(draw.number(0, 3)):
        asked = values.edited(draw, asked)
    try:
        spec = msgspec.convert(asked, SandboxSpec)
    except msgspec.ValidationError:
        return
    trust = draw.flag()
    places = msgspec.structs.replace(_PLACES, trust=pathlib.Path("/run/opensafe/trust") if trust else None)
    made = oci_spec(spec, places)
    process = made["process"]
    holds(made.keys() == _KEYS, "no hook, annotation or other key is set", sorted(made))
    holds(made["root"] == {"path": str(_PLACES.rootfs), "readonly": True}, "the root is the image's, read-only")
    holds(not any(process["capabilities"].values()), "no capability is given", process)
    holds(process["noNewPrivileges"] is True and process["env"] == [], "nothing is gained by an exec", process)
    holds(process["args"] == ["/.opensafe/init"] and process["cwd"] == "/", "the first process is ours", process)
    holds(process["user"]["uid"] != 0, "the first process is not root", process)
    holds(made["linux"].keys() == {"namespaces"}, "no device, sysctl or path is opened", made["linux"])
    kinds = {one["type"] for one in made["linux"]["namespaces"]}
    holds(kinds == {"pid", "ipc", "uts", "mount", "network"}, "every namespace is its own", kinds)
    shared = [one for one in made["linux"]["namespaces"] if "path" in one]
    holds(
        shared == [{"type": "network", "path": str(_PLACES.network)}], "no namespace is shared but the one made", shared
    )
    _mounts(made["mounts"], spec, trust=trust)


def _mounts(mounts: list[dict[str, Any]], spec: SandboxSpec, *, trust: bool) -> None:
    bound = _BOUND | ({"/.opensafe/trust": "/run/opensafe/trust"} if trust else {})
    holds(len({one["destination"] for one in mounts}) == len(mounts), "every mount has its place", mounts)
    for mount in mounts:
        place, options = mount["destination"], mount["options"]
        holds({"nosuid", "nodev"} <= set(options), "no mount has devices or set-id", mount)
        if mount["type"] == "bind":
            holds(mount["source"] == bound.get(place) and "ro" in options, "only ours is bound, read-only", mount)
        elif mount["type"] == "tmpfs":
            size = getattr(spec.limits, _MEMORY[place])
            holds(f"size={size}" in options and size >= 1 << 16, "memory has a bound", mount)
        else:
            holds((place, mount["type"]) == ("/proc", "proc"), "nothing else is mounted", mount)


def _launch(draw: Draw) -> None:
    tool, arguments = draw.pick(_CALLS)
    given: Any = draw.pick(_GRANTS)
    if draw.flag():
        arguments = values.edited(draw, arguments)
    if draw.flag():
        given = values.edited(draw, given)
    user = draw.pick(_USERS)
    try:
        grant = msgspec.convert(given, Grant)
        asked = msgspec.convert({"wall_ms": draw.number(0, 4_000_000), "output_bytes": draw.number(0, 1 << 31)}, Asked)
        call = DEFAULT_REGISTRY.validate("c1", tool, msgspec.json.encode(arguments), 1 << 16)
        launch = build_launch(DEFAULT_REGISTRY, call, grant, "sb-x", "ex-x", asked, user)
    except (OpenSafeError, ValueError):
        return
    _no_more_than_granted(call, grant, asked, user, launch)
    program = runner.guest_program(launch, {0: 10, 1: 11, 2: 12}, report=13, filtered=14)
    options = list(program.argv[: program.argv.index("--")])
    holds(program.argv[0] == "/.opensafe/run" and "--filter-fd" in options, "every program has its filter", options)
    holds(tuple(program.argv[len(options) + 1 :]) == launch.program.argv, "the call's words are words", program.argv)
    holds(
        set(program.capabilities) <= _CAPABILITIES, "the runner may become the user, and no more", program.capabilities
    )
    uid = options[options.index("--uid") + 1]
    holds(uid == str(user.uid if user else 1000), "it runs as whom was granted", options)
    for name in ("NPROC", "AS", "FSIZE", "NOFILE", "CORE"):
        holds(sum(word.startswith(f"{name}=") for word in options) == 1, "every limit is set, once", (name, options))
    packet = runner.packet(launch)
    if packet is not None:
        _read(packet, launch)


def _no_more_than_granted(call: ToolCall, grant: Grant, asked: Asked, user: User | None, launch: Launch) -> None:
    limits = launch.limits
    wanted = [one for one in (asked.wall_ms, call.sealed.get("timeout_ms", 0)) if one]
    holds(limits.wall_ms == min([grant.limits.wall_ms, *wanted]), "the deadline is the least of all", (limits, asked))
    wanted = [asked.output_bytes] if asked.output_bytes else []
    holds(limits.output_bytes == min([grant.limits.output_bytes, *wanted]), "output has the least bound", limits)
    same = ("processes", "address_space_bytes", "file_size_bytes", "open_files")
    holds(
        all(getattr(limits, name) == getattr(grant.limits, name) for name in same), "limits are those granted", limits
    )
    holds(launch.profile == grant.seccomp, "the filter is the one granted", launch.profile)
    name = str(call.sealed.get("user", ""))
    if user is None:
        holds(name in ("", "1000"), "the user asked for is not left out", name)
    else:
        holds(name in (user.name, str(user.uid)), "nobody is another's user", (name, user))
        holds(
            ("root" if user.uid == 0 else user.name) in grant.users, "a user is granted, whatever root is called", user
        )
    program = launch.program
    holds(
        posixpath.isabs(program.cwd) and posixpath.normpath(program.cwd) == program.cwd, "a directory is clean", program
    )
    holds(not any("\0" in word for word in (*program.argv, *program.env.values())), "no word ends early", program)
    if call.tool in ("Read", "Write", "List"):
        holds(program.argv[0] == "/.opensafe/file", "files are the helper's", program.argv)
        holds(grant.paths.read or grant.paths.write, "files need a root that was granted", grant)


def _read(packet: bytes, launch: Launch) -> None:
    """As the runner reads it."""
    words, variables = struct.unpack_from("<II", packet)
    texts = packet[8:].decode().split("\0")[:-1]
    holds(len(texts) == words + variables, "a packet has the words it says", (words, variables, texts))
    said = texts[:words]
    holds(tuple(said[said.index("--") + 1 :]) == launch.program.argv, "a packet says the same program", said)
    told = dict(text.split("=", 1) for text in texts[words:])
    holds(launch.program.env.items() <= told.items(), "the call's variables go before others", told)
    holds(all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in told), "a variable has a name", told)


def seeds() -> list[bytes]:
    """Sandboxes with each limit changed, and each call under each grant."""
    sandboxes = [bytes([1, at, count, *range(at, at + 12)]) for at in range(8) for count in (0, 1, 2)]
    launches = [
        bytes([0, call, grant, 0, 0, user, 0, 0, 1, 0, 0, 0, 0, 5])
        for call in range(len(_CALLS)) for grant in range(len(_GRANTS)) for user in range(len(_USERS))
    ]  # fmt: skip
    return sandboxes + launches


_SPEC: Final = "warden/sandbox/spec.py"
_SUBJECT: Final = "policy/subject.py"
TARGET: Final = Target(
    id="F3",
    title="what is started: OCI configuration, limits, the runner's words",
    one=one,
    seeds=seeds,
    modules=(
        "opensafe.warden.sandbox.spec", "opensafe.warden.sandbox.runner", "opensafe.policy.subject",
        "opensafe.normalize.tools",
    ),
    floor=60,
    longest=256,
    mutants=(
        Mutant(
            id="F3-privileges", file=_SPEC, old='"noNewPrivileges": True',
            new='"noNewPrivileges": spec.template == "base"',
            says="a template may gain privileges",
        ),
        Mutant(
            id="F3-size", file=_SPEC, old='f"size={size}", ', new="",
            says="memory file systems have no bound",
        ),
        Mutant(
            id="F3-writable", file=_SPEC, old='"options": ["bind", "ro", "nosuid", "nodev"]',
            new='"options": ["bind", "nosuid", "nodev"]',
            says="what is bound can be written",
        ),
        Mutant(
            id="F3-user", file=_SUBJECT, old="if user is not None and user.granted_as not in grant.users:",
            new="if False:",
            says="any user may be asked for",
        ),
        Mutant(
            id="F3-deadline", file=_SUBJECT,
            old="_least(grant.limits.wall_ms, asked.wall_ms, timeout_ms if isinstance(timeout_ms, int) else 0)",
            new="timeout_ms if isinstance(timeout_ms, int) else _least(grant.limits.wall_ms, asked.wall_ms)",
            says="a call's own deadline may be longer than granted",
        ),
        Mutant(
            id="F3-filter", file="warden/sandbox/runner.py", old="    if filtered is not None:",
            new="    if filtered is None:",
            says="a program is started without its filter",
        ),
        Mutant(
            id="F3-root", file="model/sandbox.py", old='return self.name if self.uid else "root"',
            new="return self.name",
            says="root under another name is another user",
        ),
    ),
)  # fmt: skip

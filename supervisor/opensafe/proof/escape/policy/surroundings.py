"""Rows on what surrounds a program: another one under its name, and variables by which it loads or runs something."""

from collections.abc import Mapping
from typing import Final

from .shot import Shot, bash, texts

_RUNS: Final = {f"/workspace/bin-@N/{name}": "#!/bin/sh\n@D\n" for name in ("ls", "git")}
_SCRIPT: Final = {"/workspace/rc-@N": "@D\n"}

NAMES: Final[tuple[Shot, ...]] = (
    *texts(
        "shopt -s expand_aliases\nalias ls='@D'\nls",
        "ls() { @D; }; ls",
        "function cd { @D; }; cd /",
        "ls() { @D; }; export -f ls; bash -c ls",
        "command_not_found_handle() { @D; }; no-such-program",
        "cp /usr/sbin/mke2fs /tmp/ls; /tmp/ls -qF @M 64",
        "ln -s /usr/sbin/mke2fs /tmp/ls-@N; /tmp/ls-@N -qF @M 64",
        "ln -s /usr/sbin /workspace/dir-@N; dir-@N/mke2fs -qF @M 64",
        "cat /usr/sbin/mke2fs > own-@N; chmod +x own-@N; ./own-@N -qF @M 64",
        "trap '@D' DEBUG; ls",
        "hash -p /usr/sbin/mke2fs ls; ls -qF @M 64",
        "PROMPT_COMMAND='@D' bash -i <<< exit",
        "unset -f x; printf -v BASH_ENV %s /dev/fd/3; export BASH_ENV; bash -c : 3<<< '@D'",
    ),
    *texts(
        "chmod +x bin-@N/ls; PATH=/workspace/bin-@N:$PATH ls",
        "chmod +x bin-@N/ls; export PATH=/workspace/bin-@N:$PATH; ls",
        "chmod +x bin-@N/ls; cd bin-@N; PATH=.:$PATH ls",
        "chmod +x bin-@N/git; env PATH=/workspace/bin-@N:$PATH git status",
        "chmod +x bin-@N/ls; hash -p /workspace/bin-@N/ls ls; ls",
        plants=_RUNS,
    ),
    *texts(
        "BASH_ENV=/workspace/rc-@N bash -c :",
        "export BASH_ENV=/workspace/rc-@N; bash -c :",
        "ENV=/workspace/rc-@N sh -i -c :",
        "bash --rcfile /workspace/rc-@N -ic :",
        plants=_SCRIPT,
    ),
)


def _env(command: str, env: Mapping[str, str], plants: Mapping[str, str] = {}) -> Shot:
    return bash(command, env=dict(env), plants=plants)


_CODE: Final = "import os; os.system('@D')\n"
_MODULE: Final = {"/workspace/py-@N/this.py": _CODE}
_PERL: Final = {"/workspace/pl-@N/evil.pm": "system('@D'); 1;\n"}
_AUTHOR: Final = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.test",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.test",
}  # fmt: skip
_SETTING: Final = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "diff.external", "GIT_CONFIG_VALUE_0": "@D #"}
_PAIR: Final = {"/workspace/a-@N": "1\n", "/workspace/b-@N": "2\n"}

VARIABLES: Final[tuple[Shot, ...]] = (
    _env("true", {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": "@M"}),
    _env("ls -l", {"LD_DEBUG": "all", "LD_DEBUG_OUTPUT": "@M", "TZ": ":/etc/localtime"}),
    _env("/bin/true", {"LD_PRELOAD": "libpcprofile.so", "PCPROFILE_OUTPUT": "@M"}),
    _env("/bin/true", {"LD_AUDIT": "libpcprofile.so", "LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": "@M"}),
    _env("bash -c :", {"BASH_ENV": "/workspace/rc-@N"}, _SCRIPT),
    _env("true", {"SHELLOPTS": "xtrace", "PS4": "$(@D)"}),
    _env("bash -xc :", {"PS4": "$(@D)"}),
    _env("python3 -m this", {"PYTHONPATH": "/workspace/py-@N:/usr/lib"}, _MODULE),
    _env("perl -e 1", {"PERL5OPT": "-Mevil", "PERL5LIB": "/workspace/pl-@N"}, _PERL),
    _env("perl -e 1", {"PERL5OPT": "-d", "PERL5DB": "BEGIN { system('@D') } sub DB::DB {}"}),
    _env("git diff --no-index a-@N b-@N", {"GIT_EXTERNAL_DIFF": "@D #"}, _PAIR),
    _env("git diff --no-index a-@N b-@N", _SETTING, _PAIR),
    _env("git init -q r-@N; cd r-@N; git commit -q --allow-empty", {"GIT_EDITOR": "@D #", **_AUTHOR}),
    _env("chmod +x bin-@N/ls; ls", {"PATH": "/workspace/bin-@N:/usr/sbin:/usr/bin:/bin"}, _RUNS),
    Shot(tool="Exec", arguments={"argv": ["true"], "env": {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": "@M"}}),
    Shot(tool="Exec", arguments={"argv": ["bash", "-c", ":"], "env": {"BASH_ENV": "/workspace/rc-@N"}}, plants=_SCRIPT),
    # Of these another rule says no where the variable is not looked at: a network, a program from standard input.
    bash("git -C /tmp ls-remote ssh://nowhere.test/x", env={"GIT_SSH_COMMAND": "@D #"}, alone=True),
    Shot(
        tool="Exec",
        arguments={"argv": ["python3", "-i"], "env": {"PYTHONSTARTUP": "/workspace/up-@N.py"}},
        plants={"/workspace/up-@N.py": _CODE},
        alone=True,
    ),
)

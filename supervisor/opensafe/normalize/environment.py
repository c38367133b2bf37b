"""What every program in the guest starts with, and which variables change what programs load, run, read or write.

Applications have variables of their own, so harmless ones can't be listed. Shells, interpreters and tools name theirs
by family: within a family everything changes behaviour but what is listed here.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

DEFAULT_CWD: Final = "/workspace"
GUEST_ENV: Final[Mapping[str, str]] = MappingProxyType(
    {
        "HOME": "/workspace",
        "LANG": "C.UTF-8",
        "MALLOC_ARENA_MAX": "2",  # threads would reserve 64 MiB of address space each, which is limited
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "TERM": "dumb",
    }
)

_FAMILIES: Final = re.compile(
    r"(?:BASH|COMP_|CURL|DOTNET_|GAWK|GCC_|GCONV|GEM_|GIT_|GLIBC_|GNUMAKE|GO[A-Z]|GREP|HIST|JAVA|JDK|LD_|LESS|LUA_|MAKE|MALLOC"
    r"|NODE_|NPM_CONFIG|PERL|PHP_|PIP_|PS[0-4]$|PYTHON|READLINE|RUBY|RUST(?:C|FLAGS|DOCFLAGS)|SSH_|SSL_|SYSTEMD|TAR_|UV_|VIM|WGET|XDG_CONFIG"
    r"|ZDOTDIR|_JAVA|CARGO_|CC$|CXX$|CPP$|LD$|AR$|CDPATH$|ENV$|EXECIGNORE$|GLOBIGNORE$|INPUTRC$|LOCPATH$|NLSPATH$"
    r"|AWK(?:LIB)?PATH$|MANPATH$|MANROFFOPT$|MFLAGS$|OPENSSL_|POSIXLY_CORRECT$|PROMPT_|RIPGREP_CONFIG|RSYNC_|SHELLOPTS$"
    r"|SHELL$|TERMCAP$|TERMINFO|TMOUT$|RES_OPTIONS$|HOSTALIASES$|CLASSPATH$|MAVEN_OPTS$|GRADLE_OPTS$|PKG_CONFIG)"
    r"|.*(?:_PRELOAD|PAGER|EDITOR|BROWSER|VISUAL|ASKPASS|WRAPPER|_OPTS)$"
)
_HARMLESS: Final = frozenset(
    [
        "BASH_VERSION",
        "CARGO_TERM_COLOR",
        "CARGO_BUILD_JOBS",
        "CARGO_INCREMENTAL",
        "CARGO_NET_OFFLINE",
        "CARGO_PROFILE_RELEASE_LTO",
        "GIT_AUTHOR_DATE",
        "GIT_AUTHOR_EMAIL",
        "GIT_AUTHOR_NAME",
        "GIT_COMMITTER_DATE",
        "GIT_COMMITTER_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_TERMINAL_PROMPT",
        "DOTNET_CLI_TELEMETRY_OPTOUT",
        "DOTNET_NOLOGO",
        "GREP_COLOR",
        "GREP_COLORS",
        "NODE_DEBUG",
        "GIT_OPTIONAL_LOCKS",
        "GIT_MERGE_AUTOEDIT",
        "GOARCH",
        "GOOS",
        "GOMAXPROCS",
        "GO111MODULE",
        "GOAMD64",
        "GOARM",
        "GODEBUG",
        "GOEXPERIMENT",
        "GOTRACEBACK",
        "JAVA_HOME",
        "MALLOC_ARENA_MAX",
        "NODE_ENV",
        "NODE_NO_WARNINGS",
        "NODE_DISABLE_COLORS",
        "PIP_DISABLE_PIP_VERSION_CHECK",
        "PIP_NO_INPUT",
        "PIP_NO_COLOR",
        "PYTHONASYNCIODEBUG",
        "PYTHONDEVMODE",
        "PYTHONSAFEPATH",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONFAULTHANDLER",
        "PYTHONHASHSEED",
        "PYTHONIOENCODING",
        "PYTHONNOUSERSITE",
        "PYTHONOPTIMIZE",
        "PYTHONTRACEMALLOC",
        "PYTHONUNBUFFERED",
        "PYTHONUTF8",
        "HISTCONTROL",
        "HISTSIZE",
        "LESSCHARSET",
    ]
)
_SEARCHES: Final = frozenset({"CLASSPATH", "GOBIN", "GOPATH", "NODE_PATH", "PERL5LIB", "PYTHONPATH", "RUBYLIB"})
#: Put behind a directory of one's own (`PYTHONPATH=src:$PYTHONPATH`), they hold nothing unless the call sets them.
UNSET: Final = frozenset({"CLASSPATH", "NODE_PATH", "PERL5LIB", "PYTHONPATH", "RUBYLIB"})
_OUTPUTS: Final = frozenset({"CARGO_TARGET_DIR", "GOCACHE", "GOTMPDIR", "PYTHONPYCACHEPREFIX"})
_NOTHING: Final = frozenset({"", "0", "1", "cat", "true", "false", ":"})
_BENEATH: Final = re.compile(
    r"(?:(?:/workspace|(?!/)[\w.-]+)(?:/[\w.-]+)*/?)(?::(?:/workspace|(?!/)[\w.-]+)(?:/[\w.-]+)*/?)*:?"
)
_COMPILER: Final = re.compile(
    r"(?:ccache )?(?:cc|c\+\+|gcc|g\+\+|clang|clang\+\+|cpp|ld|lld|ld\.lld|mold|ar|llvm-ar|musl-gcc)(?:-[0-9]+)?"
    r"(?: -(?:[DOWgm][\w=]*|std=[\w+]+))*"
)
_JAVA: Final = (
    r"-X(?:m[nsx]|ss)\w+|-XX:[+-]?(?!On)\w+(?:=[0-9]+[kmgKMG]?)?|-D(?!java\.|jdk\.|sun\.)[\w.]+=[\w.-]*"
    r"|-e?a|-esa|-server"
)
#: Variables of options: each word of the value has to be one that only tunes.
_TUNES: Final[Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        name: re.compile(pattern)
        for names, pattern in {
            "GOFLAGS": r"-mod=(?:mod|readonly|vendor)|-(?:race|short|trimpath|v|buildvcs=\w+|count=\d+|p=\d+"
            r"|tags=[\w,]+|timeout=\w+)",
            "GOPROXY": r"off",
            "GOTOOLCHAIN": r"local",
            "JAVA_TOOL_OPTIONS MAVEN_OPTS GRADLE_OPTS _JAVA_OPTIONS": _JAVA,
            "LESS": r"-?[a-zA-Z0-9]+",
            "MAKEFLAGS": r"-?[jkilnsBw]+[0-9]*|[0-9]+|--(?:no-print-directory|silent|jobs=\d+|keep-going|output-sync)",
            "NODE_OPTIONS": r"--(?:max-old-space-size|max-semi-space-size|stack-size|unhandled-rejections"
            r"|dns-result-order|stack-trace-limit)=[\w-]+|--(?:no-warnings|no-deprecation|trace-warnings|trace-deprecation|throw-deprecation"
            r"|experimental-vm-modules|enable-source-maps|openssl-legacy-provider|preserve-symlinks|expose-gc)",
            "PYTHONWARNINGS": r"(?:(?:always|default|error|ignore|module|once)(?:::[A-Za-z]*)?,?)+",
            "RUBYOPT": r"-w|-W(?:[0-2]|:[\w-]+)",
            "RUSTFLAGS RUSTDOCFLAGS": r"-C|(?:-C)?(?:codegen-units|debug-assertions|debuginfo|instrument-coverage|lto"
            r"|opt-level|overflow-checks|panic|target-cpu|target-feature)(?:=[\w+,.-]+)?|-[ADW]|(?:-[ADW])?[a-z_:]+|--cfg"
            r"|-Zsanitizer=\w+",
        }.items()
        for name in names.split()
    }
)
_QUIET: Final = frozenset({"PAGER", "GIT_PAGER", "EDITOR", "GIT_EDITOR", "VISUAL", "GIT_SEQUENCE_EDITOR", "MANPAGER"})


def changes_behaviour(name: str, value: str | None) -> bool:
    """Whether a variable may make a program load, run, read or write something that its arguments don't show."""
    if name in _HARMLESS or not _FAMILIES.match(name.upper() if name.lower().startswith("npm_config") else name):
        return False
    if value is not None and name in _QUIET:
        return value not in _NOTHING
    if value is not None and name in ("CC", "CXX", "CPP", "LD", "AR"):
        return not _COMPILER.fullmatch(value)
    if value is not None and name in _TUNES:
        return not all(map(_TUNES[name].fullmatch, value.split()))
    if value is not None and name in _OUTPUTS and value.startswith("/tmp/"):  # noqa: S108  the guest's
        return ".." in value
    if value is not None and name in _SEARCHES | _OUTPUTS:  # the workspace's own code
        return ".." in value or not _BENEATH.fullmatch(value)
    return True

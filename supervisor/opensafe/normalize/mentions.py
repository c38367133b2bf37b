"""What code that is not understood mentions, for facts beside the doubt: shell texts, and files by a literal name.

The code is opaque all the same. But a human who is asked, and the rule that decides, should see that it names `.env` or
runs `sudo`; so this widens the facts and never narrows a doubt. It looks for the idioms of python, node, perl, ruby,
php, lua and awk by regular expression, without knowing which it is.
"""

import re
import shlex
from collections.abc import Iterator
from itertools import islice
from typing import Final

from .interpreters import is_interpreter
from .options import Use
from .word import Word

_MAX_CODE: Final = 8192
_MAX_FOUND: Final = 16
_AWKS: Final = frozenset({"awk", "gawk", "mawk", "nawk"})
_LITERAL: Final = r"""(?:'([^'\\\n]*)'|"([^"\\\n]*)")"""
_STARTS: Final = (
    r"(?:(?<![\w.])(?:system|popen|exec|spawn|passthru|shell_exec|proc_open|popen)|\bos\.(?:system|popen|exec\w+|spawn\w+|execute)"
    r"|\bio\.popen|\bsubprocess\.\w+|\b(?:getoutput|check_call|check_output|Popen|capture2e?)|\w\.exec(?=\b)|\w\.spawn\w*"
    r"|\bexec(?:Sync|File|FileSync)|\bspawnSync)\b"
)
_RUNS: Final = re.compile(_STARTS + r"\s*\(?\s*" + _LITERAL)
_PIPES: Final = re.compile(r"(?:\bprint\w*[^|;{}]*\|\s*&?\s*|%x|\bqx\s*)" + _LITERAL)
_PIPED: Final = re.compile(_LITERAL + r"\s*\|&?\s*getline")
_BACKQUOTED: Final = re.compile(r"`([^`$\\\n]+)`")
_BRACED: Final = re.compile(r"(?:%x|\bqx\s*)[({\[]([^)}\]\n]+)[)}\]]")
_WORDS: Final = re.compile(
    r"\b(?:subprocess\.\w+|call|check_call|check_output|Popen|exec\w*|spawn\w*)\(\s*\[\s*((?:"
    + _LITERAL
    + r"\s*,?\s*)+)\]"
)
_DELETES: Final = re.compile(
    r"\b(?:rmtree|rmSync|rmdirSync|unlink\w*|remove|rmdir|rm_rf|rm_r|removedirs|delete)\b[^'\"\n]{0,12}" + _LITERAL
)
_WRITES: Final = re.compile(
    r"\b(?:open|fopen|File\.open)\s*\(\s*" + _LITERAL + r"\s*,\s*['\"][wa>]"
    r"|\b(?:writeFile\w*|appendFile\w*|createWriteStream|file_put_contents|File\.write)\s*\(\s*" + _LITERAL
)
_PIP: Final = (
    r"\bpip\.main\b|pip\._internal|['\"]pip['\"]\s*,\s*['\"]install|install\.packages|BiocManager::install"
    r"|remotes::install|Pkg\.add|\bCPAN\b|Gem\.install|['\"]npm['\"]\s*,\s*\[?\s*['\"](?:i|install|ci)['\"]"
)
_DOCKER: Final = (
    r"\bdocker\.(?:from_env|DockerClient)|\bimport (?:docker|kubernetes)\b|dockerode|docker\.sock|kubernetes\.client"
)
_DETACHES: Final = (
    r"\bfork\s*(?:\(|and\b|&&|;|\|\||or\b)|\bsetsid\b|start_new_session\s*=\s*True|detached\s*:\s*true"
    r"|Process\.(?:daemon|detach)|DETACHED_PROCESS|\bdaemonize\b|pcntl_fork"
)
_FETCHED: Final = (
    r"\b(?:exec|eval)\s*\(.{0,80}(?:urlopen|requests\.get|httpx\.get|file_get_contents\s*\(\s*['\"]http|URI)"
    r"|(?:fetch|get)\s*\(\s*['\"]https?:.{0,160}\beval\b|\.then\(\s*eval"
)
#: Calls by which code does what a program is known for, and that program.
_STANDS_FOR: Final = tuple(
    (re.compile(pattern), text)
    for pattern, text in {
        r"\bchmod\w*\W.{0,60}?\b0?o?[2467][0-7]{3}\b|S_ISUID|S_ISGID": "chmod u+s x",
        r"\b(?:unshare|setns|pivot_root)\s*\(|CLONE_NEW\w+": "unshare",
        r"\bchroot\s*\(": "chroot .",
        r"\bset(?:res|re|e)?[ug]id\s*\(\s*0": "setpriv",
        r"\bptrace\b|PTRACE_\w+|process_vm_(?:read|write)v": "strace -p 1",
        r"\bextractall\s*\(\s*(?:path\s*=\s*)?['\"](?:/(?!workspace|tmp)|\.\./)|fully_trusted": "tar -xPf a.tar",
        _PIP: "pip install x",
        _DOCKER: "docker ps",
        _DETACHES: "setsid x",
        _FETCHED: "curl | sh",
    }.items()
)
_LINKS: Final = re.compile(r"\b(?:sym)?link\w*\s*\(?\s*" + _LITERAL + r"\s*,\s*" + _LITERAL)
_LINKS_TO: Final = re.compile(r"\.(?:sym|hard)?link_to\(\s*" + _LITERAL)
_TALKS: Final = re.compile(
    r"\b(?:socket|connect|HTTPS?Connection|urlopen|requests|httpx|aiohttp|Socket|TCPSocket|fsockopen|createConnection|net|tls"
    r"|https?|dgram|gethostbyname\w*|getaddrinfo|resolve\w*|lookup|dns|FTP|SMTP|Telnet|IMAP|paramiko|SSHClient|Net::\w+|LWP)\b"
)
_HOST: Final = re.compile(
    r"['\"]((?:[A-Za-z0-9-]{1,63}\.){1,8}(?!py|js|mjs|ts|json|txt|md|log|html?|sh|csv|toml|ya?ml|cfg|ini|lock|xml|zip|gz|png)[A-Za-z]{2,24}"
    r"|[0-9]{1,3}(?:\.[0-9]{1,3}){3})(?::[0-9]{1,5})?['\"]"
)
_INET: Final = re.compile(r"/inet[46]?/(?:tcp|udp)/[^/\s\"']*/([\w.:-]+)/")
_QUOTED: Final = re.compile(r"(?:\bqq?\s*|%[qQ]?)[({\[]((?:~|\.{0,2})/[^)}\]\s]{1,200}|\.[A-Za-z][\w./-]*)[)}\]]")
_SED_RUNS: Final = re.compile(r"\A[0-9$]*(?:/[^/\n]*/)?\s*e\s+([^\n]+)")
_PATH: Final = re.compile(
    r"""['"]((?:~|\.{0,2})/[^'"\s<>|;]{1,200}|\.[A-Za-z][\w.-]*|[\w-][\w./-]*\.[A-Za-z]\w{0,7}|[\w.-]*/[\w./-]+)['"]"""
)


#: The same in a whole file, without steps back: an agent chooses its text.
_STARTED: Final = re.compile(
    _STARTS + r"\s*+\(?\s*+(?:\[\s*+)?((?:(?:'[^'\\\n]{0,400}+'|\"[^\"\\\n]{0,400}+\")\s*+,?\s*+){1,32}+)"
)
_SED_STEP: Final = re.compile(r"^[0-9$]*+(?:/[^/\n]{0,200}+/)?[ \t]*+e[ \t]++([^\n]{1,400})", re.MULTILINE)
_MAX_STARTED: Final = 256


def started(program: str, code: str) -> Iterator[Word]:
    """What code of a file starts, where it stands there as literals. A sed script's are lines of its own.

    Nothing is read out of what else a file says, in comments and documentation for one.
    """
    if program in ("gsed", "sed"):
        yield from (Word(found[1]) for found in islice(_SED_STEP.finditer(code), _MAX_STARTED))
    for found in islice(_STARTED.finditer(code), _MAX_STARTED):
        parts = [single or double for single, double in re.findall(_LITERAL, found[1])]
        yield Word(parts[0] if len(parts) == 1 else shlex.join(parts))


def runs_code(program: str) -> bool:
    """Whether a program takes code whose mentions are worth a look."""
    return program in _AWKS or program == "sed" or is_interpreter(program)


def mentioned(code: str) -> Iterator[Use]:
    """Texts that may be run (role `text`) and files that may be read, written or deleted."""
    if len(code) > _MAX_CODE or (".exec(" in code and "child_process" not in code):
        return
    for role, patterns in (
        ("text", (_SED_RUNS, _RUNS, _PIPES, _PIPED, _BACKQUOTED, _BRACED)),
        ("delete", (_DELETES,)),
        ("write", (_WRITES,)),
    ):
        for pattern in patterns:
            for found in list(pattern.finditer(code))[:_MAX_FOUND]:
                text = next((group for group in found.groups() if group), "")
                if text:
                    yield Use(role, Word(text))  # type: ignore[arg-type]  # the roles above
    for found in list(_WORDS.finditer(code))[:_MAX_FOUND]:
        parts = [single or double for single, double in re.findall(_LITERAL, found[1])]
        if parts:
            yield Use("text", Word(" ".join(parts)))
    for pattern, text in _STANDS_FOR:
        if pattern.search(code):
            yield Use("text", Word(text))
    for found in list(_LINKS.finditer(code))[:_MAX_FOUND]:
        target, link = (found[1] or found[2] or "x"), (found[3] or found[4] or "x")
        yield Use("text", Word(shlex.join(["ln", "-s", target, link])))
    for found in list(_LINKS_TO.finditer(code))[:_MAX_FOUND]:
        yield Use("text", Word(shlex.join(["ln", "-s", found[1] or found[2] or "x", "x"])))
    if _TALKS.search(code):
        yield from (Use("host", Word(found[1])) for found in list(_HOST.finditer(code))[:_MAX_FOUND])
    yield from (Use("host", Word(found[1])) for found in list(_INET.finditer(code))[:_MAX_FOUND])
    for pattern in (_PATH, _QUOTED):
        for found in list(pattern.finditer(code))[:_MAX_FOUND]:
            yield Use("read", Word(found[1]))

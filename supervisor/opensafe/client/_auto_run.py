"""Files that a host runs by itself: a shell that starts, a prompt, an editor that opens, git, an interpreter.

An agent that leaves such a file in a tree acts outside its sandbox as soon as somebody enters the exported copy. What
has to be started by name (a Makefile, a test, a package's script) is not listed: whoever starts it means to.
"""

import codecs
import re
from typing import Final

#: By name, wherever they lie; lower case, since file systems may ignore it.
_NAMES: Final = frozenset(
    """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout
    .kshrc .cshrc .tcshrc .login .logout .inputrc .envrc .direnvrc .autoenv .vimrc .gvimrc .exrc .nvimrc .nvim.lua
    .lvimrc .emacs .dir-locals.el .gdbinit .lldbinit .pythonrc .pythonstartup .irbrc .pryrc .rprofile .xinitrc
    .xprofile .xsession .tmux.conf .screenrc .gitmodules .hgrc .npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs
    autorun.inf desktop.ini
    """.split()  # noqa: SIM905 - fifty quotes would hide the names
)
#: By the last components; a directory covers what lies in it.
_TREES: Final = tuple(
    tuple(path.split("/"))
    for path in (
        ".git/hooks", ".hg/hgrc", ".svn/hooks", ".vscode/tasks.json", ".vscode/settings.json", ".vscode/launch.json",
        ".vscode/extensions", ".idea", ".fleet", ".zed", ".devcontainer", ".config/autostart", ".config/systemd",
        ".config/fish", ".config/nvim", ".husky/_",
    )
)  # fmt: skip
#: githooks(5). A `.git` that is a file or a link names any directory for the repository, hooks included.
_GIT_HOOKS: Final = frozenset(
    """
    applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit
    pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update
    reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman
    post-index-change
    """.split()  # noqa: SIM905 - as above
)
_SUFFIXES: Final = (".pth", ".desktop", ".code-workspace")
#: Python imports them when it starts (site): as a file of any kind, or as a package.
_IMPORTED: Final = frozenset(("sitecustomize", "usercustomize"))

#: Settings of git's that start nothing (git-config(1)); whatever else a configuration holds may.
_GIT_FILES: Final = frozenset(("config", "config.worktree", ".gitconfig"))
#: Larger settings are taken for some that do.
GIT_MAX: Final = 1 << 20
_SECTION: Final = re.compile(rb'\[\s*([A-Za-z0-9.-]+)(?:\s+"[^"\\\n]*")?\s*\]')
_SETTING: Final = re.compile(rb"([A-Za-z][A-Za-z0-9-]*)(?:\s*=\s*([^\\\n]*))?")
_HARMLESS: Final = {
    b"core": frozenset(
        b"repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol "
        b"compression bigfilethreshold quotepath".split()
    ),
    b"remote": frozenset(b"url pushurl fetch tagopt prune".split()),
    b"branch": frozenset(b"remote merge rebase".split()),
    b"user": frozenset(b"name email".split()),
    b"init": frozenset(b"defaultbranch".split()),
    b"pull": frozenset(b"rebase ff".split()),
    b"push": frozenset(b"default".split()),
    b"extensions": frozenset(b"objectformat".split()),
}
_URL: Final = re.compile(rb"[\w.-]+|(?:https?|ssh|git)://[^\s]*|[\w.-]+@[\w.-]+:[^\s:]*|/[^\s:]*|\.{0,2}/[^\s:]*")


def is_auto_run(path: bytes) -> bool:
    """Whether a host runs what lies at this path of an exported tree."""
    parts = _parts(path)
    name = parts[-1].rstrip(" .")  # which some file systems drop
    if not _IMPORTED.isdisjoint(part.partition(".")[0] for part in parts):
        return True
    if name in _NAMES or name.endswith(_SUFFIXES) or (parts[-2:-1] == ["hooks"] and name in _GIT_HOOKS):
        return True
    return any(tuple(parts[at : at + len(tree)]) == tree for tree in _TREES for at in range(len(parts) - len(tree) + 1))


def is_auto_run_link(path: bytes) -> bool:
    """Whether a link at this path lets a host run what lies elsewhere in the tree, under names that say nothing."""
    parts = _parts(path)
    begins = any(parts[-size:] == list(tree[:size]) for tree in _TREES for size in range(1, len(tree)))
    return begins or parts[-1] == "hooks" or may_be_git_config(path) or is_auto_run(path)


def _parts(path: bytes) -> list[str]:
    return path.decode("utf-8", "surrogateescape").lower().split("/")


def may_be_git_config(path: bytes) -> bool:
    """Whether git may read the file as its settings: a repository can lie anywhere, bare ones under any name."""
    return path.rpartition(b"/")[2].decode("utf-8", "surrogateescape").lower() in _GIT_FILES


def git_config_starts(content: bytes) -> bool:
    """Whether these are git settings that may start a program, which is all that is not known to start none."""
    if len(content) > GIT_MAX:
        return True
    content = content.removeprefix(codecs.BOM_UTF8)  # which git skips
    if not any(line.lstrip().startswith(b"[") for line in content.split(b"\n")):
        return False  # without a section there is no setting
    allowed: frozenset[bytes] = frozenset()
    section = b""
    for line in content.split(b"\n"):
        text = line.strip()
        if not text or text[:1] in (b"#", b";"):
            continue
        opened = _SECTION.fullmatch(text)
        if opened is not None:
            section = opened[1].lower()
            allowed = _HARMLESS.get(section, frozenset())
            continue
        setting = _SETTING.fullmatch(text)
        if setting is None or setting[1].lower() not in allowed:
            return True
        if _names_remote(section, setting[1].lower()) and not _URL.fullmatch(setting[2] or b""):
            return True  # ext:: and the like start programs
    return False


def _names_remote(section: bytes, setting: bytes) -> bool:
    """Whether its value is where a remote is: of a branch's, that may be a name as well as an address."""
    return (section == b"remote" and setting.endswith(b"url")) or (section == b"branch" and setting == b"remote")

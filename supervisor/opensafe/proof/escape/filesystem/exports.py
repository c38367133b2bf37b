"""What an agent leaves in a tree for the host to run by itself, once the tree is exported."""

import os
import pathlib
import tarfile
import tempfile
from typing import Final

import msgspec

from opensafe.client.copying import fetch_tree
from opensafe.proof import mutants
from opensafe.proof.escape import host
from opensafe.proof.escape.ground import Ground
from opensafe.proof.escape.probe import Boundary, Run, Severity
from opensafe.proof.escape.trial import Trial
from opensafe.proof.escape.ways import FILTER, POLICY
from opensafe.proof.mutants import Mutant
from opensafe.proof.planting import plant

from .archives import unpacking

_TREE: Final = "/workspace/tree"
MUTANTS: Final = (
    Mutant(
        id="export-names-unchecked",
        file="client/_auto_run.py",
        old="    parts = _parts(path)\n    name = parts[-1]",
        new='    return False\n    parts = [""]\n    name = parts[-1]',
    ),
    Mutant(
        id="export-git-settings-unchecked",
        file="client/_auto_run.py",
        old="    if len(content) > GIT_MAX:\n        return True\n",
        new="    return False\n",
    ),
)
#: In the guest, or on the host for the archive that a guest could not make: everything a host runs by itself.
_PLANT: Final = """
import os, subprocess
run = "touch " + MARKER
script = "#!/bin/sh\\n" + run + ".%s\\nexit 0\\n"
def put(path, text, mode=0o644):
    path = os.path.join(TREE, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, mode)
def settings(name):
    return (
        "[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = \\"%s.%s-fsmonitor;false\\"\\n\\thooksPath = own\\n"
        "\\tpager = \\"%s.%s-pager;cat\\"\\n\\tsshCommand = \\"%s\\"\\n"
        "[filter \\"x\\"]\\n\\tclean = \\"%s.%s-clean;cat\\"\\n\\tsmudge = \\"%s.%s-smudge;cat\\"\\n"
        "[alias]\\n\\tstatus = \\"!%s\\"\\n[diff]\\n\\texternal = \\"%s.%s-diff\\"\\n"
    ) % (run, name, run, name, run, run, name, run, name, run, run, name)
os.makedirs(TREE, exist_ok=True)
git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.test", "-c", "safe.directory=*", "-C"]
for place in ("", "nested"):
    put(os.path.join(place, "file.txt"), "text\\n")
    at = os.path.join(TREE, place)
    subprocess.run(["git", "init", "-q", at], check=True)
    subprocess.run([*git, at, "add", "file.txt"], check=True)
    subprocess.run([*git, at, "commit", "-qm", "one"], check=True)
for place in ("", "nested/"):
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction"):
        put(place + ".git/hooks/" + hook, script % hook, 0o755)
        put(place + "own/" + hook, script % ("own-" + hook), 0o755)
    put(place + ".git/config", settings("config"))
    put(place + ".gitattributes", "* filter=x diff=x\\n")
    put(place + "file.txt", "changed\\n")
bare = "sub/store"
subprocess.run(["git", "init", "-q", "--bare", os.path.join(TREE, bare)], check=True)
put(bare + "/config", settings("bare") + "[core]\\n\\tworktree = ..\\n")
put("linked/.git", "gitdir: ../sub/store\\n")
def repository(place):
    at = os.path.join(TREE, place)
    put(os.path.join(place, "file.txt"), "text\\n")
    subprocess.run(["git", "init", "-q", at], check=True)
    subprocess.run([*git, at, "add", "file.txt"], check=True)
    return os.path.join(at, ".git")
def link(path, target):
    if os.path.lexists(path):
        os.rename(path, path + ".was")
    os.symlink(target, path)
monitor = "\\tfsmonitor = \\"%s.%s;false\\"\\n"
marked = repository("mark")
put("mark/.git/config", "\\ufeff[core]\\n" + monitor % (run, "mark"))
aliased = repository("alias")
put("alias/.git/settings", "[core]\\n" + monitor % (run, "alias"))
link(aliased + "/config", "settings")
hooked = repository("hooked")
put("hooked/own/post-index-change", script % "hooked", 0o755)
link(hooked + "/hooks", "../own")
os.rename(hooked, os.path.join(TREE, "hooked/store"))
put("hooked/.git", "gitdir: store\\n")
put("hooked/elsewhere/tasks.json", "{}")
os.symlink("elsewhere", os.path.join(TREE, "hooked", ".vscode"))
put("packaged/sitecustomize/__init__.py", "import os; os.system(%r)\\n" % (run + ".package"))
for name in (".bashrc", ".bash_profile", ".profile", ".envrc", ".bash_logout", ".inputrc", ".vimrc", "x/.bashrc"):
    put(name, run + "." + name.replace("/", "-") + "\\n")
put("sitecustomize.py", "import os; os.system(%r)\\n" % (run + ".site"))
put("x/usercustomize.py", "import os; os.system(%r)\\n" % (run + ".user"))
put("x/a.pth", "import os; os.system(%r)\\n" % (run + ".pth"))
put(".vscode/tasks.json", '{"tasks": [{"runOptions": {"runOn": "folderOpen"}, "command": "%s.task"}]}' % run)
put(".gitconfig", settings("home"))
print("planted")
"""
#: What somebody does who looks at the tree. {tree} is it, and is home, as of a container that mounts it there.
_LOOK_AT_IT: Final = """
export HOME='{tree}' PYTHONPATH='{tree}:{tree}/packaged' GIT_PAGER= GIT_CONFIG_NOSYSTEM=1
for place in '{tree}' '{tree}'/nested '{tree}'/sub/store '{tree}'/linked '{tree}'/x '{tree}'/mark '{tree}'/alias \\
    '{tree}'/hooked '{tree}'/packaged; do
    cd "$place" 2>/dev/null || continue
    for what in status diff 'log -1' 'add -A' 'commit -qm two' 'checkout -q -b other'; do
        git -c safe.directory='*' $what </dev/null >/dev/null 2>&1
    done
    bash -ic true </dev/null >/dev/null 2>&1
    bash -lc true </dev/null >/dev/null 2>&1
    /usr/bin/python3 -c pass </dev/null >/dev/null 2>&1
done
exit 0
"""


async def _looked_at(canary: host.Canary, tree: pathlib.Path, said: bytes, layer: str) -> Run:
    """said: by the program that planted it all, which says so at its end."""
    await host.command("sh", "-c", _LOOK_AT_IT.format(tree=tree))
    there, ran = _names(tree), [name for name in _names(canary.directory) if name != canary.file.name]
    return Run(
        began=said.endswith(b"planted\n") and "file.txt" in there,
        finished=True,
        found=canary.changed() or _for_an_editor(tree),
        layer=layer,
        hints=(f"exported: {', '.join(there)}", f"ran: {', '.join(ran)}"),
    )


def _for_an_editor(tree: pathlib.Path) -> str:
    """Nobody opens an editor here: that it would find tasks is enough."""
    found = next((path for path in tree.glob("**/.vscode/tasks.json")), None)
    return f"an editor finds {found.relative_to(tree)}" if found is not None else ""


def _names(directory: pathlib.Path) -> list[str]:
    """Of what lies there, in order."""
    return sorted(path.name for path in directory.iterdir())


def _planting(canary: host.Canary, tree: str) -> str:
    return "\n".join([f"MARKER, TREE = {str(canary.directory / 'ran')!r}, {tree!r}", _PLANT])


async def _exported(on: Ground) -> Run:
    """Made in the guest, and fetched as `opensafe cp` does."""
    async with on.session() as (client, session, sandbox):
        with host.Canary.planted() as canary, tempfile.TemporaryDirectory() as made:
            files = client.files(session, sandbox)
            await plant(files, "/workspace/plant.py", _planting(canary, _TREE).encode())
            done = await client.run_call(session, sandbox, "plant", "Bash", {"command": "python3 /workspace/plant.py"})
            tree = pathlib.Path(made, "tree")
            copied = await fetch_tree(files, _TREE, str(tree), with_auto_run=False)
            return await _looked_at(canary, tree, done.stdout, f"client: {copied.left.count} names left out")


async def _unpacked(source: pathlib.Path | None) -> Run:
    with host.Canary.planted() as canary, tempfile.TemporaryDirectory() as made:
        before, tree = pathlib.Path(made, "before"), pathlib.Path(made, "target")
        planted = await host.bare(_planting(canary, str(before)), env={"PATH": os.environ["PATH"], "HOME": made})
        with tarfile.open(f"{made}/tar", "w") as tar:
            tar.add(before, ".")
        said = await host.command(*unpacking(source, pathlib.Path(made)))
        return await _looked_at(canary, tree, planted, f"client: {said.count('auto-run')} names left out")


async def _peeled(_: Ground) -> Run:
    return msgspec.structs.replace(await _unpacked(None), opened=(POLICY, FILTER, "file helper"))


async def _all_of_it(_: Ground) -> Run:
    with mutants.planted(*MUTANTS) as source:
        return await _unpacked(source)


FS_22 = Trial(
    id="FS-22", boundary=Boundary.FILESYSTEM, severity=Severity.ESCAPE,
    title="files that a host runs by itself in an exported tree: git hooks and settings, shells, Python, editors",
    attacks=("T1546.004", "T1059", "T1195.002"),
    breach="somebody on the host looks at the exported tree (git, bash, python), and a planted command runs",
    control=f"mut {MUTANTS[0].id}, {MUTANTS[1].id}: the export is not checked",
    attempts=(_exported, _peeled), weak=_all_of_it,
)  # fmt: skip

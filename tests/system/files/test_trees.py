"""Trees through the typed service and the command line: out and back the same, and what is left out on the way."""

import io
import json
import os
import stat
import subprocess
import sys
import tarfile

import pytest

from opensafe import errors

ODD = [b"new\nline", b"\xff\xfe", b"\xff" * 255, b"n" * 255, "文件".encode() * 42, b" ", b"-rf"]


def look(root):
    found = {}
    for directory, names, files in os.walk(os.fsencode(root)):
        for name in names + files:
            path = os.path.join(directory, name)
            info = os.lstat(path)
            content = os.readlink(path) if stat.S_ISLNK(info.st_mode) else None
            if stat.S_ISREG(info.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            kind, mode = stat.S_IFMT(info.st_mode), stat.S_IMODE(info.st_mode)
            found[os.path.relpath(path, os.fsencode(root))] = (kind, mode, int(info.st_mtime), content)
    return found


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    (root / "empty").mkdir(parents=True)
    (root / "deep").mkdir()
    base = os.fsencode(root)
    for name in ODD:
        with open(base + b"/deep/" + name, "wb") as file:
            file.write(name * 100)
    (root / "script").write_bytes(b"#!/bin/sh\n")
    (root / "script").chmod(0o751)
    os.symlink("deep/no/such", root / "dangling")
    os.symlink("script", root / "link")
    (root / "empty").chmod(0o500)
    for directory, names, files in os.walk(base, topdown=False):
        for name in names + files:
            os.utime(os.path.join(directory, name), (0, 1_600_000_000), follow_symlinks=False)
    return root


@pytest.fixture
def cp(daemon, sandbox):
    """cp(SRC, DST, *options): (status, report). A `sb:` stands for the sandbox."""

    async def run(source, target, *options, report=True):
        import asyncio

        words = [str(word).replace("sb:", f"{sandbox}:", 1) for word in (source, target)]
        command = [sys.executable, "-m", "opensafe.cli", "cp", *options, *(["--json"] if report else []), *words]
        environment = {**os.environ, "OPENSAFE_SOCKET": str(daemon.socket_of("agent"))}
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, env=environment, timeout=120)
        return done.returncode, json.loads(done.stdout) if report and done.stdout else done.stderr.decode()

    return run


def left(report):
    return {(item["path"], item["reason"]) for item in report["details"]["left_out"]}


async def pieces(data):
    for at in range(0, len(data), 100_000):
        yield data[at : at + 100_000]


async def archive_of(files, path):
    data = bytearray()

    async def take(piece):
        data.extend(piece)

    found = await files.download(path, take)
    return bytes(data), found


def made(*members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o755
            if kind == tarfile.REGTYPE:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                info.linkname = content
                tar.addfile(info)
    return buffer.getvalue()


async def test_R40_a_tree_goes_in_and_comes_back_the_same(cp, tree, tmp_path):
    assert (await cp(tree, "sb:/workspace/in/to", "-r"))[0] == 0
    status, report = await cp("sb:/workspace/in/to", tmp_path / "back", "-r")
    assert (status, report["summary"]["left_out"]) == (0, 0)
    assert look(tmp_path / "back") == look(tree)


async def test_a_file_goes_in_and_comes_back(cp, tmp_path):
    content = os.urandom(3 << 20)
    (tmp_path / "file").write_bytes(content)
    (tmp_path / "there").mkdir()
    assert (await cp(tmp_path / "file", "sb:/workspace/"))[0] == 0
    assert (await cp("sb:/workspace/file", tmp_path / "there"))[0] == 0
    assert (tmp_path / "there" / "file").read_bytes() == content
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["file"]


async def test_what_can_t_be_copied_says_why(cp, tmp_path):
    for words, status, text in (
        (("sb:/workspace/missing", tmp_path / "x"), 1, "no such file"),
        (("sb:/etc/shadow", tmp_path / "x"), 193, "tool.read.secrets.block"),
        (("sb:/workspace/missing", tmp_path / "x", "-r"), 1, "no such file"),
        (("sb:/etc", tmp_path / "x", "-r"), 193, "no rule allows"),
        ((tmp_path / "missing", "sb:/workspace/x"), 197, "No such file"),
        ((tmp_path / "missing", "sb:/workspace/x", "-r"), 197, "No such file"),
        ((tmp_path, "sb:/workspace/x"), 197, "-r"),
        ((tmp_path, tmp_path), 197, "SANDBOX:PATH"),
    ):
        ended, errors_ = await cp(*words, report=False)
        assert (ended, text in errors_) == (status, True), (words, errors_)
    assert list(tmp_path.iterdir()) == []


async def test_G40_an_upload_follows_no_link_on_either_side(files, cp, tree, tmp_path, shell):
    """`ln -s /etc/shadow x` in the source goes as a link, and a link that leaves is left out."""
    (tree / "x").symlink_to("/etc/shadow")
    status, report = await cp(tree, "sb:/workspace/in", "-r")
    assert (status, left(report)) == (1, {("x", "link")})
    await shell("import os; os.mkdir('/workspace/to'); os.symlink('/tmp', '/workspace/to/deep')")
    status, report = await cp(tree, "sb:/workspace/to", "-r")
    assert ("deep", "exists") in left(report)
    assert [entry.name async for entry in files.entries("/tmp")] == [b"scene.py"]


async def test_what_policy_holds_back_goes_neither_way(files, cp, tree, tmp_path, shell):
    (tree / ".git" / "hooks").mkdir(parents=True)
    (tree / ".git" / "hooks" / "pre-commit").write_text("#!/bin/sh\n")
    (tree / ".bashrc").write_text("x\n")
    (tree / ".gitignore").write_text("x\n")
    status, report = await cp(tree, "sb:/workspace/in", "-r")
    assert status == 1
    held = {path for path, reason in left(report) if reason == "held"}
    assert held == {".git", ".git/hooks", ".git/hooks/pre-commit", ".bashrc"}
    assert b".gitignore" in [entry.name async for entry in files.entries("in")]
    await shell(
        "import os; os.mkdir('/workspace/out'); open('/workspace/out/.env', 'w'); open('/workspace/out/a', 'w')"
    )
    status, report = await cp("sb:/workspace/out", tmp_path / "out", "-r")
    assert (status, left(report)) == (1, {(".env", "held")})
    assert os.listdir(tmp_path / "out") == ["a"]


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x"])
async def test_G38_an_archive_with_names_that_leave_is_refused(files, name):
    with pytest.raises(errors.BadArchive):
        await files.upload("in", pieces(made((name, tarfile.REGTYPE, b"1"))))


async def test_R36_members_that_are_no_files_are_left_out(files):
    archive = made(("null", tarfile.CHRTYPE, ""), ("fifo", tarfile.FIFOTYPE, ""), ("plain", tarfile.REGTYPE, b"1"))
    found = await files.upload("in", pieces(archive))
    assert {(item.path, item.reason) for item in found.items} == {(b"null", "special"), (b"fifo", "special")}
    assert [entry.name async for entry in files.entries("in")] == [b"plain"]


async def test_R36_special_files_of_a_guest_are_left_out(files, shell):
    await shell("import os, socket; os.chdir('/workspace'); os.mkfifo('p'); socket.socket(1).bind('s'); open('f', 'w')")
    archive, found = await archive_of(files, ".")
    assert {(item.path, item.reason) for item in found.items} == {(b"p", "special"), (b"s", "special")}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert tar.getnames() == ["f"]


async def test_half_an_archive_never_looks_like_a_whole_one(files):
    archive = made(("one", tarfile.REGTYPE, b"x" * 2000))
    with pytest.raises(errors.BadArchive):
        await files.upload("in", pieces(archive[:1024]))
    assert [entry.name async for entry in files.entries("in")] == []


async def test_an_archive_whose_making_fails_is_not_a_shorter_one(files):
    async def breaks():
        yield made(("one", tarfile.REGTYPE, b"1"))[:1024]
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError):
        await files.upload("in", breaks())


async def test_G43_three_thousand_names_are_all_there(files, shell):
    await shell("import os; os.mkdir('/workspace/d'); [os.symlink('x', f'/workspace/d/{i}') for i in range(3000)]")
    archive, found = await archive_of(files, "d")
    assert found.count == 0
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert len(tar.getnames()) == 3000


async def test_B22_FS_22_what_a_host_would_run_by_itself_is_left_out_of_an_export(cp, shell, tmp_path):
    await shell("""
import os
for path, text in (
    ('a/.git/hooks/post-checkout', '#!/bin/sh'), ('a/.git/config', '[core]\\n\\tfsmonitor = ./run\\n'),
    ('b/.git/config', '[core]\\n\\tbare = false\\n[remote "origin"]\\n\\turl = https://example.org/x\\n'),
    ('bare/config', '[core]\\n\\tbare = true\\n\\tfsmonitor = ./run\\n'), ('.envrc', 'x'), ('.vscode/tasks.json', '{}'),
    ('lib/sitecustomize.py', 'x'), ('lib/x.pth', 'import x'), ('package.json', '{}'), ('Makefile', 'all:'),
    ('config', 'x'),
):
    path = '/workspace/out/' + path
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, 'w').write(text)
""")
    status, report = await cp("sb:/workspace/out", tmp_path / "out", "-r")
    held = {path for path, reason in left(report) if reason == "auto-run"}
    assert status == 1
    assert held == {
        "a/.git/hooks", "a/.git/hooks/post-checkout", "a/.git/config", "bare/config", ".envrc", ".vscode/tasks.json",
        "lib/sitecustomize.py", "lib/x.pth",
    }  # fmt: skip
    there = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert there == {"b/.git/config", "package.json", "Makefile", "config"}
    status, report = await cp("sb:/workspace/out", tmp_path / "all", "-r", "--with-auto-run")
    assert (status, left(report)) == (0, set())
    assert (tmp_path / "all/a/.git/hooks/post-checkout").exists()

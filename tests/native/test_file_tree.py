"""file download and upload: trees as tar, made and read beside Python's tarfile as the other side."""

import io
import os
import pathlib
import random
import socket
import stat
import subprocess
import tarfile

import pytest

pytestmark = pytest.mark.root

OK, NOT_FOUND, OUTSIDE, WRONG_TYPE, TOO_LARGE, NO_SPACE, DENIED = 0, 10, 11, 12, 13, 14, 15
BAD_ARCHIVE, PARTIAL = 21, 22
SECRET = b"secret outside the root"
LONG = "n" * 255
ODD = [
    b"new\nline",
    b"\xff\xfe not utf-8",
    b"\xff" * 255,
    LONG.encode(),
    "文件".encode() * 42,
    b" ",
    b"-rf",
    b"a\\b",
    b"%2e",
]


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "ws"
    root.mkdir()
    for name in ("ws-evil", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret").write_bytes(SECRET)
    return root


@pytest.fixture
def file(native, tree):
    """file(verb, path, *options, data=…): (status, output, what was left out, the line at the end)."""

    def run(verb, path, *options, data=b"", root=tree, **popen):
        words = [native / "guest" / "file", verb, root, path, *map(str, options)]
        done = subprocess.run(words, input=data, capture_output=True, timeout=60, **popen)
        *records, line = done.stderr.split(b"\0")
        left_out = [tuple(record.split(b" ", 1)) for record in records]
        assert line.count(b"\n") == (0 if done.returncode == OK else 1)
        return done.returncode, done.stdout, left_out, line.decode()

    return run


def untouched(tree):
    for name in ("ws-evil", "outside"):
        assert [path.name for path in (tree.parent / name).iterdir()] == ["secret"]
        assert (tree.parent / name / "secret").read_bytes() == SECRET
    return True


def look(root):
    """What a tree is: path -> (type, mode, time in seconds, content or target), as bytes."""
    found = {}
    for directory, names, files in os.walk(os.fsencode(root)):
        for name in names + files:
            path = os.path.join(directory, name)
            info = os.lstat(path)
            content = None
            if stat.S_ISLNK(info.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(info.st_mode):
                content = pathlib.Path(os.fsdecode(path)).read_bytes()
            kind, mode = stat.S_IFMT(info.st_mode), stat.S_IMODE(info.st_mode)
            found[os.path.relpath(path, os.fsencode(root))] = (kind, mode, int(info.st_mtime), content)
    return found


def without_times_of_links(root):
    """For Python, which does not set them."""
    return {
        path: (kind, mode, 0 if kind == stat.S_IFLNK else when, content)
        for path, (kind, mode, when, content) in look(root).items()
    }


def grow(root):
    """A tree with all that has to survive."""
    base = os.fsencode(root)
    os.mkdir(base + b"/empty", 0o700)
    os.mkdir(base + b"/read-only")
    os.mkdir(base + b"/deep")
    for name in ODD:
        path = base + b"/deep/" + name
        os.close(os.open(path, os.O_CREAT, 0o644))
        os.mkdir(base + b"/deep/d" + name[:200])
        os.symlink(name, base + b"/deep/d" + name[:200] + b"/link")
    nested = base + b"/" + b"/".join([b"nested" * 10] * 8)
    os.makedirs(nested)
    pathlib.Path(os.fsdecode(nested + b"/leaf")).write_bytes(b"leaf")
    for size in (0, 1, 511, 512, 513, 65535, 65536, 200_000):
        pathlib.Path(root / f"size-{size}").write_bytes(random.Random(size).randbytes(size))
    (root / "read-only" / "inside").write_bytes(b"x")
    os.chmod(root / "size-513", 0o751)
    os.symlink("size-1", root / "to-file")
    os.symlink("no/such", root / "dangling")
    os.symlink("t" * 300, root / "to-a-long-name")
    os.symlink(os.fsencode("../" + root.name), root / "up")
    for directory, names, files in os.walk(base, topdown=False):
        for name in names + files:
            path = os.path.join(directory, name)
            os.utime(path, (0, 1_600_000_000 + len(name)), follow_symlinks=False)
    os.chmod(root / "read-only", 0o555)
    return root


@pytest.fixture
def full(tree):
    return grow(tree)


# round trips


def test_r40_a_tree_goes_out_and_comes_back_the_same(file, full, tmp_path):
    status, archive, left_out, _ = file("download", ".")
    assert (status, left_out) == (OK, [])
    back = tmp_path / "back"
    back.mkdir()
    # "up" leads to the root's name one level up: a link that leaves is left out there.
    status, output, left_out, _ = file("upload", "in/to", data=archive, root=back)
    assert (status, left_out) == (OK, [])
    assert look(back / "in" / "to") == look(full)
    assert int(output[:-1].split(b" ")[0]) == len(look(full))


def test_r40_python_reads_what_is_made(file, full, tmp_path):
    archive = file("download", ".")[1]
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = tar.getmembers()
        assert all(member.uid == member.gid == 0 for member in members)
        names = {os.fsencode(member.name) for member in members}
        assert names == set(look(full))
        tar.extractall(tmp_path / "python")
    assert without_times_of_links(tmp_path / "python") == without_times_of_links(full)


def test_tar_itself_reads_what_is_made(file, full, tmp_path):
    (tmp_path / "gnu").mkdir()
    archive = file("download", ".")[1]
    subprocess.run(["tar", "xp"], input=archive, cwd=tmp_path / "gnu", check=True)
    assert look(tmp_path / "gnu") == look(full)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT], ids=["pax", "gnu"])
def test_what_python_makes_is_read(file, full, tmp_path, form):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        tar.add(full, arcname=".")
    back = tmp_path / "back"
    back.mkdir()
    status, _, left_out, _ = file("upload", "x", data=buffer.getvalue(), root=back)
    assert (status, left_out) == (OK, [])
    assert look(back / "x") == look(full)


def test_one_file_is_an_archive_too(file, full):
    status, archive, _, _ = file("download", "size-513")
    assert status == OK
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert [(member.name, member.size, member.mode) for member in tar] == [("size-513", 513, 0o751)]


def test_an_empty_tree_is_an_archive_too(file, tree):
    status, archive, _, _ = file("download", ".")
    assert (status, len(archive)) == (OK, 1024)
    assert file("upload", "new", data=archive)[0] == OK
    assert (tree / "new").is_dir()


# what is left out


def test_r36_download_leaves_special_files_out_and_says_so(file, tree):
    os.mkfifo(tree / "fifo")
    os.mknod(tree / "null", 0o20666, os.makedev(1, 3))
    (tree / "plain").write_bytes(b"plain")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tree / "socket"))
        status, archive, left_out, line = file("download", ".")
    assert status == PARTIAL
    assert sorted(left_out) == [(b"special", b"fifo"), (b"special", b"null"), (b"special", b"socket")]
    assert "3 left out" in line
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert tar.getnames() == ["plain"]


def test_g40_download_goes_on_past_what_it_may_not_read(file, open_dir):
    (open_dir / "closed").write_bytes(SECRET)
    (open_dir / "closed").chmod(0o600)
    (open_dir / "open").write_bytes(b"open")
    (open_dir / "shut").mkdir(mode=0o700)
    status, archive, left_out, _ = file("download", ".", root=open_dir, user=1000, group=1000)
    assert (status, sorted(left_out)) == (PARTIAL, [(b"unreadable", b"closed"), (b"unreadable", b"shut")])
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert sorted(tar.getnames()) == ["open", "shut"]


HOLD = ["--hold", "**/.git/", "--hold", "**/*.key", "--hold", "**/.docker/config.json"]
HELD_FILES = ["a/.git/hooks/pre-commit", ".git/config", "server.key", "deep/x.key", ".docker/config.json"]
KEPT_FILES = ["a/git/x", ".gitignore", "server.keys", ".docker/other", "config.json"]


def plant(root, names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def test_what_policy_holds_back_is_not_downloaded(file, tree):
    plant(tree, HELD_FILES + KEPT_FILES)
    status, archive, left_out, _ = file("download", ".", *HOLD)
    assert status == PARTIAL
    assert {path for reason, path in left_out if reason == b"held"} == {
        b"a/.git", b".git", b"server.key", b"deep/x.key", b".docker/config.json",
    }  # fmt: skip
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert {member.name for member in tar if member.isfile()} == set(KEPT_FILES)


def test_what_policy_holds_back_is_not_unpacked(file, tree, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    plant(source, HELD_FILES + KEPT_FILES)
    archive = archive_of(*[(name, source / name) for name in HELD_FILES + KEPT_FILES])
    status, _, left_out, _ = file("upload", ".", *HOLD, data=archive)
    assert status == PARTIAL
    assert {path.decode() for reason, path in left_out if reason == b"held"} == set(HELD_FILES)
    assert {str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file()} == set(KEPT_FILES)


def test_a_hard_link_to_what_is_held_back_is_not_made(file, tree):
    plant(tree, ["server.key"])
    archive = archive_of(member("copy", tarfile.LNKTYPE, linkname="server.key"))
    assert file("upload", ".", *HOLD, data=archive)[2] == [(b"link", b"copy")]
    assert not (tree / "copy").exists()


# caps


def test_g43_caps_end_it_and_say_so(file, full, tmp_path):
    count = len(look(full))
    assert file("download", ".", "--max", count - 1)[0] == TOO_LARGE
    assert file("download", ".", "--max", count)[0] == OK
    archive = file("download", ".")[1]
    (tmp_path / "back").mkdir()
    assert file("upload", "x", "--max", count - 1, data=archive, root=tmp_path / "back")[0] == TOO_LARGE
    size = sum(len(content) for kind, _, _, content in look(full).values() if kind == stat.S_IFREG)
    assert file("download", ".", "--max-bytes", size - 1)[0] == TOO_LARGE
    assert file("download", ".", "--max-bytes", size)[0] == OK
    assert file("upload", "y", "--max-bytes", size - 1, data=archive, root=tmp_path / "back")[0] == TOO_LARGE
    assert file("upload", "z", "--max-bytes", size, data=archive, root=tmp_path / "back")[0] == OK


def test_a_size_that_claims_more_than_there_can_be_is_refused_before_it_is_read(file, tree):
    header = bytearray(member("big", tarfile.REGTYPE)[0])
    header[124:136] = b"\x80" + b"\0" * 3 + (2**62).to_bytes(8, "big")
    assert file("upload", ".", "--max-bytes", 10**6, data=summed(header))[0] == TOO_LARGE
    header[124:136] = b"\x80" + b"\xff" * 11
    assert file("upload", ".", data=summed(header))[0] == BAD_ARCHIVE
    assert list(tree.iterdir()) == []


def test_rs06_a_full_filesystem_ends_it(file, full, small_tmpfs):
    archive = file("download", ".")[1]
    assert file("upload", "x", data=archive, root=small_tmpfs)[0] == NO_SPACE


# hostile archives, each with a twin that stays inside


def summed(header):
    header = bytearray(header)
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    return bytes(header)


def member(name, kind, data=b"", **fields):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.PAX_FORMAT), data + b"\0" * (-len(data) % 512)


def archive_of(*parts):
    """Members as (header, content), or (name, path of a file)."""
    data = b""
    for first, second in parts:
        if isinstance(first, str):
            first, second = member(first, tarfile.REGTYPE, second.read_bytes())  # noqa: PLW2901 - one form of the two
        data += first + second
    return data + b"\0" * 1024


@pytest.mark.parametrize(
    "name", ["/etc/x", "../x", "a/../../x", "a/..", "..", "../ws-evil/x", "./../x", "a/../b", LONG + "x"]
)
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_g38_names_that_leave_end_the_unpacking(file, tree, name, kind):
    archive = archive_of(member("first", tarfile.REGTYPE, b"1"), member(name, kind, linkname="first"))
    status, _, _, line = file("upload", ".", data=archive)
    assert status == BAD_ARCHIVE, line
    assert untouched(tree)
    assert [path.name for path in tree.iterdir()] == ["first"]


@pytest.mark.parametrize(
    ("name", "lands"), [("./a", "a"), ("a//b", "a/b"), ("a/./b/", "a/b"), ("..a", "..a"), ("...", "...")]
)
def test_g38_names_that_stay_are_taken(file, tree, name, lands):
    assert file("upload", ".", data=archive_of(member(name, tarfile.REGTYPE, b"1")))[0] == OK
    assert (tree / lands).read_bytes() == b"1"


@pytest.mark.parametrize("target", ["../outside", "/etc", "..", "a/../../x"])
def test_r36_g40_nothing_is_written_through_a_link(file, tree, target):
    """A link that an archive makes, and one that was there before, lead nowhere."""
    archive = archive_of(
        member("link", tarfile.SYMTYPE, linkname=target), member("link/secret", tarfile.REGTYPE, b"changed")
    )
    status, _, left_out, _ = file("upload", ".", data=archive)
    assert status == PARTIAL
    assert (b"link", b"link") in left_out
    assert untouched(tree)
    (tree / "planted").symlink_to(target)
    archive = archive_of(member("planted/secret", tarfile.REGTYPE, b"changed"), member("ok", tarfile.REGTYPE, b"1"))
    assert file("upload", ".", data=archive)[2] == [(b"link", b"planted/secret")]
    assert untouched(tree)
    assert (tree / "ok").read_bytes() == b"1"


def test_r36_a_link_is_replaced_and_not_followed(file, tree):
    (tree / "link").symlink_to("../outside/secret")
    assert file("upload", ".", data=archive_of(member("link", tarfile.REGTYPE, b"new")))[0] == OK
    assert not (tree / "link").is_symlink()
    assert (tree / "link").read_bytes() == b"new"
    assert untouched(tree)


@pytest.mark.parametrize("where", ["up/loaded", "planted"])
def test_r36_the_directory_itself_is_reached_through_no_link(file, tree, where):
    (tree / "up").symlink_to("..")
    (tree / "planted").symlink_to("../outside")
    status, _, _, _ = file("upload", where, data=archive_of(member("x", tarfile.REGTYPE, b"1")))
    assert status in (OUTSIDE, WRONG_TYPE)
    assert file("download", where)[0] in (OUTSIDE, WRONG_TYPE)
    assert untouched(tree)


@pytest.mark.parametrize("target", ["a/inside", "../x", "/WS/x", "./a/../inside", "no/such", "/WS"])
def test_r40_links_that_stay_are_made(file, tree, target):
    target = target.replace("/WS", str(tree))
    archive = archive_of(member("dir/link", tarfile.SYMTYPE, linkname=target))
    assert file("upload", ".", data=archive)[0] == OK
    assert os.readlink(tree / "dir" / "link") == target


@pytest.mark.parametrize("target", ["../../x", "/etc/passwd", "/WS-evil/x", "/WS/../x", "../a/../../x"])
def test_links_that_leave_are_left_out(file, tree, target):
    archive = archive_of(member("dir/link", tarfile.SYMTYPE, linkname=target.replace("/WS", str(tree))))
    assert file("upload", ".", data=archive)[::2] == (PARTIAL, [(b"link", b"dir/link")])
    assert not os.path.lexists(tree / "dir" / "link")


def test_hard_links_stay_within_what_is_unpacked(file, tree):
    (tree / "above").write_bytes(b"above")
    (tree / "in").mkdir()
    (tree / "in" / "to-above").symlink_to("../above")
    names = ["../above", "/etc/passwd", "missing", "to-above", "dir", "../../outside/secret"]
    archive = archive_of(
        member("dir", tarfile.DIRTYPE, mode=0o755),
        member("one", tarfile.REGTYPE, b"1"),
        member("two", tarfile.LNKTYPE, linkname="one"),
        member("one", tarfile.LNKTYPE, linkname="one"),
        *[member(f"bad-{i}", tarfile.LNKTYPE, linkname=name) for i, name in enumerate(names)],
    )
    status, _, left_out, _ = file("upload", "in", data=archive)
    assert (status, left_out) == (PARTIAL, [(b"link", f"bad-{i}".encode()) for i in range(len(names))])
    assert (tree / "in" / "one").stat().st_ino == (tree / "in" / "two").stat().st_ino
    assert (tree / "in" / "one").read_bytes() == b"1"
    assert (tree / "above").stat().st_nlink == 1


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_r36_devices_and_fifos_are_left_out(file, tree, kind):
    archive = archive_of(member("special", kind), member("plain", tarfile.REGTYPE, b"1"))
    assert file("upload", ".", data=archive)[::2] == (PARTIAL, [(b"special", b"special")])
    assert [path.name for path in tree.iterdir()] == ["plain"]


def test_set_id_bits_are_dropped(file, tree):
    archive = archive_of(member("x", tarfile.REGTYPE, b"1", mode=0o6755), member("d", tarfile.DIRTYPE, mode=0o7777))
    assert file("upload", ".", data=archive)[0] == OK
    assert stat.S_IMODE((tree / "x").stat().st_mode) == 0o755
    assert stat.S_IMODE((tree / "d").stat().st_mode) == 0o777


def test_an_existing_directory_is_not_replaced_by_a_file_nor_a_file_by_a_directory(file, tree):
    plant(tree, ["d/kept", "f"])
    archive = archive_of(
        member("d", tarfile.REGTYPE, b"1"),
        member("f", tarfile.DIRTYPE, mode=0o755),
        member("f/x", tarfile.REGTYPE, b"1"),
    )
    status, _, left_out, _ = file("upload", ".", data=archive)
    assert (status, left_out) == (PARTIAL, [(b"exists", b"d"), (b"exists", b"f"), (b"exists", b"f/x")])
    assert (tree / "d" / "kept").read_text() == "d/kept"


def test_g40_upload_goes_on_past_what_it_may_not_write(file, open_dir):
    (open_dir / "shut").mkdir(mode=0o755)
    (open_dir / "mine").mkdir()
    os.chown(open_dir / "mine", 1000, 1000)
    os.chown(open_dir, 1000, 1000)
    archive = archive_of(member("shut/x", tarfile.REGTYPE, b"1"), member("mine/x", tarfile.REGTYPE, b"2"))
    status, _, left_out, _ = file("upload", ".", data=archive, root=open_dir, user=1000, group=1000)
    assert (status, left_out) == (PARTIAL, [(b"denied", b"shut/x")])
    assert (open_dir / "mine" / "x").read_bytes() == b"2"


@pytest.mark.parametrize("cut", [0, 1, 511, 512, 600, 1023, 1024, 1500])
def test_half_an_archive_never_looks_like_a_whole_one(file, tree, cut):
    archive = archive_of(member("one", tarfile.REGTYPE, b"x" * 600))
    assert len(archive) == 512 + 1024 + 1024
    status, _, _, line = file("upload", ".", data=archive[:cut])
    assert (status, "middle" in line) == (BAD_ARCHIVE, True)
    assert not (tree / "one").exists() or cut >= 512 + 600


MALFORMED = {
    "garbage": b"\x01" * 512,
    "bad-checksum": b"x" + member("a", tarfile.REGTYPE)[0][1:] + b"\0" * 1024,
    "sparse": summed(bytes(member("a", tarfile.REGTYPE)[0])[:156] + b"S" + member("a", tarfile.REGTYPE)[0][157:]),
    "pax-sparse": archive_of(member("a", tarfile.REGTYPE, b"1", pax_headers={"GNU.sparse.major": "1"})),
    "unknown-kind": summed(bytes(member("a", tarfile.REGTYPE)[0])[:156] + b"Z" + member("a", tarfile.REGTYPE)[0][157:]),
    "link-with-content": archive_of(member("a", tarfile.SYMTYPE, b"x", linkname="b")),
    "bad-octal": summed(b"a" + b"\0" * 99 + b"0000z44\0" + member("a", tarfile.REGTYPE)[0][108:]),
}


@pytest.mark.parametrize("archive", MALFORMED.values(), ids=MALFORMED)
def test_malformed_archives_are_refused(file, tree, archive):
    assert file("upload", ".", data=archive)[0] == BAD_ARCHIVE
    assert not (tree / "a").exists()


def test_whatever_bytes_come_nothing_leaves_and_the_end_is_typed(file, full, tmp_path):
    """Archives with a few bytes changed, checksums mended or not: every one ends with one of our statuses."""
    valid = file("download", ".")[1]
    chance = random.Random(7)
    known = {OK, BAD_ARCHIVE, PARTIAL, TOO_LARGE, OUTSIDE, WRONG_TYPE, 16}
    seen = set()
    for turn in range(150):
        data = bytearray(valid)
        for _ in range(chance.randint(1, 8)):
            at = chance.randrange(len(data) // 512) * 512 + chance.choice([0, 100, 124, 156, 157, 257, 345, 400])
            data[at] = chance.choice([0, 1, 0x2E, 0x2F, 0x31, 0x32, 0x78, 0x80, 0xFF])
            if chance.random() < 0.8:
                start = at - at % 512
                data[start : start + 512] = summed(data[start : start + 512])
        back = tmp_path / f"fuzz-{turn}"
        back.mkdir()
        seen.add(file("upload", "x", "--max-bytes", 10**7, data=bytes(data), root=back)[0])
        assert [path.name for path in back.iterdir()] == ["x"]
        assert untouched(full)
    assert seen <= known
    assert {BAD_ARCHIVE, OK} <= seen


# R39: files that change while they are read


def test_r39_a_file_that_shrinks_meanwhile_keeps_the_archive_whole(native, tree):
    size = 8 << 20
    (tree / "big").write_bytes(b"x" * size)
    (tree / "zlast").write_bytes(b"after")
    words = [native / "guest" / "file", "download", tree, "."]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        first = child.stdout.read(65536)  # the rest waits for the pipe
        os.truncate(tree / "big", 10)
        rest, errors = child.communicate()
    assert child.returncode == PARTIAL
    assert errors.startswith(b"changed big\0")
    with tarfile.open(fileobj=io.BytesIO(first + rest)) as tar:
        assert {member.name: member.size for member in tar} == {"big": size, "zlast": 5}
        whole = tar.extractfile("big")
        assert whole is not None
        content = whole.read()
        assert content.strip(b"x").strip(b"\0") == b""

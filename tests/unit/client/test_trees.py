"""Unpacking on the host what an enemy packed, each attack beside a twin that is taken; and packing what is there."""

import io
import os
import pathlib
import random
import stat
import tarfile
import tracemalloc

import pytest

from opensafe import errors
from opensafe.client import trees
from opensafe.client.trees import pack, unpack

SECRET = b"outside"


@pytest.fixture
def target(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(SECRET)
    return tmp_path / "target"


def untouched(target):
    outside = target.parent / "outside"
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_bytes() == SECRET
    return True


def archive(*members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o6755
            if kind == tarfile.REGTYPE:
                info.size = len(content)
            else:
                info.linkname = content
            tar.addfile(info, io.BytesIO(content) if kind == tarfile.REGTYPE else None)
    buffer.seek(0)
    return buffer


def taken(target, *members, with_auto_run=False):
    left = unpack(archive(*members), str(target), with_auto_run=with_auto_run)
    assert left.count == len(left.items)
    return {(item.path, item.reason) for item in left.items}


FILE, LINK, HARD, DIRECTORY = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE


@pytest.mark.parametrize("name", ["../outside/x", "/tmp/opensafe-escape", "a/../../outside/x", ".."])
@pytest.mark.parametrize("kind", [FILE, DIRECTORY, LINK])
def test_G38_B16_names_that_leave_end_the_unpacking(target, name, kind):
    with pytest.raises(errors.BadArchive):
        taken(target, (name, kind, b"x" if kind == FILE else "a"))
    assert untouched(target)


@pytest.mark.parametrize("link", ["../outside", "..", "a/../../outside"])
def test_B15_nothing_is_written_through_a_link(target, link):
    held = taken(target, ("l", LINK, link), ("l/secret", FILE, b"changed"))
    assert (b"l", "link") in held
    assert untouched(target)
    target.joinpath("planted").symlink_to("../outside")
    assert taken(target, ("planted/secret", FILE, b"changed")) == {(b"planted/secret", "exists")}
    assert untouched(target)


def test_a_link_that_stands_in_a_file_s_place_is_replaced(target):
    target.mkdir()
    (target / "l").symlink_to("../outside/secret")
    assert taken(target, ("l", FILE, b"new")) == set()
    assert (target / "l").read_bytes() == b"new"
    assert untouched(target)


@pytest.mark.parametrize("link", ["a", "no/such", "./a", "b//a/", "."])
def test_links_that_stay_are_made(target, link):
    assert taken(target, ("l", LINK, link)) == set()
    assert os.readlink(target / "l") == link


@pytest.mark.parametrize(
    ("links", "leads_out"),
    [
        ([("a", "."), ("l", "a/..")], "l"),
        ([("a", "."), ("d/b", "../a"), ("l", "d/b/../..")], "l"),
        ([("d/a", ".."), ("l", "d/a/../x")], "l"),
        ([("d/e/a", "../.."), ("d/l", "../d/e/a/..")], "d/l"),
        ([("s", "."), ("l", "s/s/../../outside/secret")], "l"),
    ],
)
def test_B15_no_chain_of_links_leads_out(target, links, leads_out):
    """Each of them stays where it is read as text; what a name in it leads to is another matter."""
    held = taken(target, *((name, LINK, link) for name, link in links))
    assert (leads_out.encode(), "link") in held
    root = os.path.realpath(target)
    made = [path for path in target.rglob("*") if path.is_symlink()]
    assert len(made) == len(links) - 1
    assert all(os.path.realpath(path).startswith(root) for path in made)


@pytest.mark.parametrize("up", ["..", "../b", "../../b"])
def test_a_link_may_lead_up_as_far_as_it_lies_deep(target, up):
    assert taken(target, ("d/e/l", LINK, up)) == set()
    assert os.readlink(target / "d/e/l") == up


class Counted(io.BytesIO):
    """Counts what is read of it."""

    reads = 0

    def read(self, size=-1):
        self.reads += 1
        assert self.reads < 1000  # or it would go on for days
        return super().read(size)


@pytest.mark.parametrize("size", [1 << 40, (1 << 63) - 1])
def test_G38_a_member_that_claims_to_be_large_ends_with_the_archive(target, size):
    """Where its content is passed over, too: tarfile would read on behind the end as often as it claims."""
    for name in ("f", ".envrc"):
        header = tarfile.TarInfo(name)
        header.size = size
        claimed = Counted(header.tobuf(tarfile.GNU_FORMAT) + b"short")
        with pytest.raises(errors.BadArchive):
            unpack(claimed, str(target), with_auto_run=False, size_limit=1 << 70)
        assert claimed.reads < 20


@pytest.mark.parametrize("said", ["GNU.sparse.realsize", "GNU.sparse.size"])
def test_G38_a_member_that_is_said_to_be_small_is_passed_over_no_longer_than_the_archive(target, said):
    """It is read as one byte, and tarfile goes on where its own header says that it ends."""
    header = tarfile.TarInfo("f")
    header.size = 1 << 50
    record = f"{len(said) + 6} {said}=1\n".encode()  # POSIX pax: its own length first
    small = tarfile.TarInfo("small")
    small.type, small.size = tarfile.XHDTYPE, len(record)
    said_small = small.tobuf(tarfile.GNU_FORMAT) + record.ljust(tarfile.BLOCKSIZE, b"\0")
    claimed = Counted(said_small + header.tobuf(tarfile.GNU_FORMAT) + b"short")
    with pytest.raises(errors.BadArchive):
        unpack(claimed, str(target), with_auto_run=False)
    assert claimed.reads < 20


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, HARD])
def test_devices_fifos_and_hard_links_are_left_out(target, kind):
    assert taken(target, ("s", kind, "../outside/secret"), ("f", FILE, b"1")) == {(b"s", "special")}
    assert os.listdir(target) == ["f"]


def test_set_id_bits_are_dropped(target):
    taken(target, ("f", FILE, b"1"))
    assert stat.S_IMODE((target / "f").stat().st_mode) == 0o755


def test_what_is_there_of_another_type_stays(target):
    (target / "d").mkdir(parents=True)
    (target / "f").write_bytes(b"1")
    assert taken(target, ("d", FILE, b"2"), ("f/x", FILE, b"2")) == {(b"d", "exists"), (b"f/x", "exists")}
    assert (target / "f").read_bytes() == b"1"


AUTO_RUN = [
    ".git/hooks/pre-commit", "a/.git/hooks/x", ".GIT/HOOKS/x", ".bashrc", "a/.envrc", ".profile", ".vscode/tasks.json",
    ".vscode/settings.json", ".idea/workspace.xml", "sitecustomize.py", "lib/usercustomize.py", "lib/x.pth", ".npmrc",
    "bare/hooks/post-checkout", ".config/autostart/x.desktop", ".envrc ", ".gitmodules", "x.code-workspace",
    ".devcontainer/devcontainer.json", "sitecustomize/__init__.py", "a/usercustomize.abi3.so",
]  # fmt: skip
ORDINARY = [
    "package.json", "Makefile", "conftest.py", ".gitignore", ".github/workflows/x.yml", "git/hooks/x", "bashrc",
    "x.path", "hooks/pre_commit.py", "pre-commit", "tasks.json", ".vscode/x.json", ".git/HEAD",
    ".git/objects/00/11", "a.idea/x", "sitecustomize_test.py", "not/sitecustomized.py",
]  # fmt: skip


@pytest.mark.parametrize("name", AUTO_RUN)
def test_FS_22_B22_what_a_host_runs_by_itself_is_left_out(target, name):
    assert taken(target, (name, FILE, b"x")) == {(name.encode(), "auto-run")}
    assert not (target / name).exists()
    assert taken(target, (name, FILE, b"x"), with_auto_run=True) == set()
    assert (target / name).exists()


@pytest.mark.parametrize("name", ORDINARY)
def test_what_has_to_be_started_is_taken(target, name):
    assert taken(target, (name, FILE, b"x")) == set()
    assert (target / name).read_bytes() == b"x"


#: Names of links under which something else of the tree would be run.
RUN_AS = [
    ".git/config", "bare/config", ".gitconfig", ".git", "a/.git", "store/hooks", ".git/hooks", ".vscode", ".config",
    ".vscode/tasks.json", ".bashrc", "x/sitecustomize", "a.pth", ".HUSKY",
]  # fmt: skip


@pytest.mark.parametrize("name", RUN_AS)
def test_FS_22_a_link_that_lets_a_host_run_something_else_is_left_out(target, name):
    assert taken(target, ("ordinary", FILE, b"x"), (name, LINK, "ordinary")) == {(name.encode(), "auto-run")}
    assert not os.path.lexists(target / name)
    assert taken(target, (name, LINK, "ordinary"), with_auto_run=True) == set()
    assert (target / name).is_symlink()


@pytest.mark.parametrize("name", ["latest", "config.json", "git", "a/tasks.json", "hook", ".github", ".gitignore"])
def test_other_links_are_taken(target, name):
    assert taken(target, (name, LINK, "ordinary")) == set()
    assert (target / name).is_symlink()


STARTS = [
    "[core]\n\tfsmonitor = ./x\n", "[core]\nhooksPath=h\n", "[core]\n\tsshCommand = x\n", "[CORE]\n FSMonitor=x\n",
    "[core] fsmonitor = x\n", "[include]\n\tpath = x\n", '[includeIf "gitdir:."]\n path=x\n', "[alias]\n\tst = !x\n",
    '[filter "x"]\n\tclean = x\n', "[diff]\n\texternal = x\n", "[credential]\n\thelper = !x\n", "[core]\n\tpager = x\n",
    '[remote "o"]\n\turl = ext::sh -c x\n', '[remote "o"]\n\tuploadpack = x\n',
    "[core]\n\tbare = false \\\n fsmonitor = x\n",
    "\ufeff[core]\n\tfsmonitor = x\n", '[branch "m"]\n\tremote = ext::sh -c x\n', '[merge "x"]\n\tdriver = x\n',
    "[core]\n\teditor = x", "[gpg]\n\tprogram = x\n", "[x\n",
]  # fmt: skip
HARMLESS = [
    "", "# nothing\n", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n",
    '[remote "origin"]\n\turl = https://example.org/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n',
    '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n', "[user]\n\tname = A\n\temail = a@b\n",
    '[remote "o"]\n\turl = git@example.org:x/y.git\n', "\ufeff[core]\n\tbare = false\n", "no settings of git's\n",
]  # fmt: skip


@pytest.mark.parametrize("name", [".git/config", "bare/config", "a/.git/config.worktree", ".gitconfig"])
@pytest.mark.parametrize("text", STARTS)
def test_FS_22_git_settings_that_start_something_are_left_out(target, name, text):
    assert taken(target, (name, FILE, text.encode())) == {(name.encode(), "auto-run")}


@pytest.mark.parametrize("text", HARMLESS)
def test_git_settings_that_start_nothing_are_taken(target, text):
    assert taken(target, (".git/config", FILE, text.encode())) == set()
    assert (target / ".git/config").read_text() == text


def test_whatever_bytes_come_the_end_is_typed_and_nothing_leaves(target):
    members = [("d", DIRECTORY, ""), ("d/f", FILE, b"x" * 600), ("l", LINK, "d/f"), ("é" * 80, FILE, b"1")]
    valid = archive(*members).getvalue()
    chance = random.Random(7)
    ends = set()
    for turn in range(300):
        data = bytearray(valid)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        into = target / str(turn)
        try:
            unpack(io.BytesIO(bytes(data)), str(into), with_auto_run=False)
            ends.add("ok")
        except (errors.BadArchive, errors.InvalidArgument) as error:
            ends.add(type(error).__name__)
    assert {"ok", "BadArchive"} <= ends
    assert untouched(target)


def test_packing_follows_no_link_and_leaves_special_files_out(target, tmp_path):
    target.mkdir()
    (target / "to-outside").symlink_to("../outside")
    (target / "f").write_bytes(b"1")
    os.mkfifo(target / "fifo")
    buffer = io.BytesIO()
    left = pack(str(target), buffer)
    assert [(item.path, item.reason) for item in left.items] == [(b"fifo", "special")]
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as tar:
        assert {(member.name, member.type) for member in tar} == {("to-outside", LINK), ("f", FILE)}


def test_packing_what_is_not_there(tmp_path):
    with pytest.raises(errors.InvalidArgument):
        pack(str(tmp_path / "missing"), io.BytesIO())


def beneath(place):
    """This process's open descriptors of what lies there; those that others left to the collector are not counted."""
    found = [os.path.realpath(one) for one in pathlib.Path("/proc/self/fd").iterdir()]
    return [one for one in found if one.startswith(str(place))]


def test_no_descriptor_is_left_open(target):
    for _ in range(20):
        taken(target, ("a/b/c", FILE, b"1"), ("a/l", LINK, "b"), ("x", tarfile.CHRTYPE, ""))
        with pytest.raises(errors.BadArchive):
            taken(target, ("../x", FILE, b"1"))
    assert beneath(target) == []
    with (target / "a/b/c").open("rb"):  # the control
        assert beneath(target) == [str(target / "a/b/c")]


def holed(size):
    """One file of zeros, as a download makes it of a hole."""
    return ("f", FILE, bytes(size))


def test_RS_13_B50_no_more_is_taken_than_the_caller_says(target):
    with pytest.raises(errors.LimitExceeded, match="size_limit"):
        unpack(archive(("a", FILE, bytes(600)), holed(600)), str(target), with_auto_run=False, size_limit=1199)
    assert [path.name for path in target.iterdir()] == ["a"]


def test_RS_13_B50_as_much_as_the_caller_says_is_taken(target):
    unpack(archive(("a", FILE, bytes(600)), holed(600)), str(target), with_auto_run=False, size_limit=1200)
    assert sorted(path.name for path in target.iterdir()) == ["a", "f"]


def test_RS_13_B50_entries_are_counted_whatever_becomes_of_them(target, monkeypatch):
    monkeypatch.setattr(trees, "MAX_TREE_ENTRIES", 3)
    names = [(f".git/hooks/{number}", FILE, b"") for number in range(4)]
    assert len(taken(target, *names[:3])) == 3
    with pytest.raises(errors.LimitExceeded, match="entries"):
        taken(target, *names)


def test_RS_13_B50_directories_on_the_way_are_counted(target, monkeypatch):
    monkeypatch.setattr(trees, "MAX_TREE_ENTRIES", 3)
    assert taken(target, ("a/b/c/f", FILE, b""), ("a/b/c/g", FILE, b"")) == set()
    with pytest.raises(errors.LimitExceeded, match="entries"):
        taken(target, ("b/b/c/d/f", FILE, b""))


def header(name, kind, size=0, *, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    block = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    if size < 0:
        size += 256**12  # GNU: in base 256, two's complement
    block[124:136] = size.to_bytes(12, "big")
    block[124] |= 0x80
    return summed(block)


def summed(block):
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def pax(kind=tarfile.XHDTYPE, **words):
    """POSIX pax: each record begins with its own length."""
    text = b""
    for word, value in words.items():
        rest = f" {word.replace('_', '.')}={value}\n".encode()
        text += next(b"%d%s" % (n, rest) for n in range(len(rest), len(rest) + 9) if len(b"%d%s" % (n, rest)) == n)
    return header("x", kind, len(text)) + blocks(text)


def blocks(content):
    return content + bytes(-len(content) % tarfile.BLOCKSIZE)


MANY = header("f", FILE, 4096) + bytes(4096)
END = bytes(1024)


def received(target, data, **options):
    return unpack(io.BytesIO(data), str(target), with_auto_run=False, **options)


@pytest.mark.parametrize(
    "before",
    [
        header("d", DIRECTORY, -4096),
        header("l", LINK, -4096, link="x"),
        pax(size=-4096) + header("d", DIRECTORY),
        pax(GNU_sparse_realsize=-4096) + header("x", FILE),
        pax(GNU_sparse_size=-4096) + header("x", FILE),
    ],
    ids=["directory", "link", "pax", "GNU.sparse.realsize", "GNU.sparse.size"],
)
def test_RS_13_B50_a_negative_size_makes_no_room_for_others(target, before):
    with pytest.raises(errors.BadArchive, match="negative"):
        received(target, before + MANY + END, size_limit=1000)
    assert not (target / "f").exists()


def test_members_of_no_size_make_none_either(target):
    with pytest.raises(errors.LimitExceeded):
        received(target, header("d", DIRECTORY) + MANY + END, size_limit=1000)
    received(target, header("d", DIRECTORY) + MANY + END, size_limit=4096)
    assert sorted(os.listdir(target)) == ["d", "f"]


def sparse(stored, *, more=b""):
    """GNU's old header of a file with holes, and the blocks that go on with its map."""
    block = bytearray(header("s", tarfile.GNUTYPE_SPARSE, stored))
    block[482] = bool(more)
    block[483:495] = b"%011o\0" % stored
    return summed(block) + more


def map_block(*, more):
    return b"\0" * 504 + bytes([more]) + bytes(7)


@pytest.mark.parametrize(
    "holed",
    [
        sparse(0),
        sparse(2 << 20) + bytes(2 << 20),
        sparse(512, more=map_block(more=True) * 20 + map_block(more=False)) + bytes(512),
        pax(GNU_sparse_major=1, GNU_sparse_minor=0, GNU_sparse_realsize=512)
        + header("s", FILE, 1024)
        + blocks(b"1\n0\n512\n")
        + bytes(512),
    ],
    ids=["empty", "large", "in many pieces", "format 1.0"],
)
def test_files_with_holes_are_left_out_as_special_and_what_follows_is_taken(target, holed):
    left = received(target, holed + MANY + END)
    assert [(item.path, item.reason) for item in left.items] == [(b"s", "special")]
    assert (target / "f").read_bytes() == bytes(4096)


@pytest.mark.parametrize(
    "map_of_holes",
    [
        sparse(512, more=map_block(more=True) * 5000),
        pax(GNU_sparse_major=1, GNU_sparse_minor=0, GNU_sparse_realsize=512)
        + header("s", FILE, 4 << 20)
        + b"9999999\n"
        + b"1\n" * (1 << 20),
    ],
    ids=["old", "format 1.0"],
)
def test_RS_13_a_map_of_holes_is_not_read_whatever_its_size(target, map_of_holes):
    archived = io.BytesIO(map_of_holes)
    with pytest.raises(errors.BadArchive, match="extended header"):
        unpack(archived, str(target), with_auto_run=False)
    assert archived.tell() <= 1 << 20


@pytest.mark.parametrize("cut", [512, 513, 1000])
def test_G38_a_map_of_holes_that_is_cut_is_a_bad_archive(target, cut):
    with pytest.raises(errors.BadArchive):
        received(target, sparse(512, more=map_block(more=True) * 3)[:cut])


def test_G38_headers_without_end_are_a_bad_archive(target):
    with pytest.raises(errors.BadArchive):
        received(target, pax(tarfile.XGLTYPE, comment="c") * 1000 + MANY + END)


def test_a_few_headers_before_a_member_are_taken(target):
    received(target, pax(tarfile.XGLTYPE, comment="c") * 10 + MANY + END)
    assert os.listdir(target) == ["f"]


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE])
def test_RS_13_nothing_of_the_archive_is_kept(target, kind):
    large = b"".join(pax(kind, **{f"k{turn}": "x" * 500_000}) + header("f", FILE) for turn in range(40))
    archived = io.BytesIO(large + END)
    tracemalloc.start()
    try:
        unpack(archived, str(target), with_auto_run=False)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < len(large) / 4


@pytest.mark.parametrize("damage", [b"\xff" * 512, b"short"])
def test_G38_a_header_that_is_damaged_is_not_taken_for_the_end(target, damage):
    with pytest.raises(errors.BadArchive, match="damaged"):
        received(target, MANY + damage)


@pytest.mark.parametrize("end", [b"", bytes(512), END])
def test_an_archive_may_end_without_its_end_blocks(target, end):
    received(target, MANY + end)
    assert os.listdir(target) == ["f"]


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_RS_13_an_extended_header_is_not_read_whatever_its_size(target, kind):
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, (1 << 20) + 1
    with pytest.raises(errors.BadArchive, match="extended header"):
        unpack(io.BytesIO(info.tobuf(tarfile.GNU_FORMAT)), str(target), with_auto_run=False)


def test_long_names_are_taken(target):
    name = "/".join(["d" * 200] * 4)
    assert taken(target, (name, FILE, b"x")) == set()
    assert (target / name).read_bytes() == b"x"

"""file: names rather than content. Stat, remove, move, mkdir, writes into a file, and what watch tells."""

import ctypes
import hashlib
import os
import stat
import subprocess
import threading

import pytest

from tests.native.support import popen

pytestmark = pytest.mark.root

OK, NOT_FOUND, OUTSIDE, WRONG_TYPE, TOO_LARGE, DENIED, OTHER = 0, 10, 11, 12, 13, 15, 16
NOT_DECIDED, EXISTS, NOT_EMPTY, OTHER_FILESYSTEM = 17, 18, 19, 20
SECRET = b"secret outside the root"
EXCHANGE = 2  # RENAME_EXCHANGE
OUTSIDE_PATHS = [
    "../outside/secret",
    "dir/../../outside/secret",
    "/etc/passwd",
    "to-outside/secret",
    "../ws-evil/secret",
]


@pytest.fixture
def tree(tmp_path):
    """root/ with some content, beside it siblings with a secret, and links to them."""
    root = tmp_path / "ws"
    (root / "dir").mkdir(parents=True)
    (root / "file").write_bytes(b"0123456789")
    (root / "dir" / "inner").write_bytes(b"inner")
    for name in ("ws-evil", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret").write_bytes(SECRET)
    (root / "to-outside").symlink_to("../outside")
    (root / "to-file").symlink_to("file")
    return root


@pytest.fixture
def file(native, tree):
    """file(verb, path, *options, data=…): (status, output, errors)."""

    def run(verb, path, *options, data=b"", root=tree, **popen):
        words = [native / "guest" / "file", verb, root, path, *map(str, options)]
        done = subprocess.run(words, input=data, capture_output=True, timeout=20, **popen)
        assert done.stderr.count(b"\n") == (0 if done.returncode == OK else 1)
        return done.returncode, done.stdout, done.stderr.decode()

    return run


def untouched(tree):
    for name in ("ws-evil", "outside"):
        assert [path.name for path in (tree.parent / name).iterdir()] == ["secret"]
        assert (tree.parent / name / "secret").read_bytes() == SECRET
    return True


# stat


def test_stat_describes_the_name_and_follows_no_link(file, tree):
    os.utime(tree / "file", ns=(0, 5_000_000_001))
    assert file("stat", "file") == (OK, b"f 10 0644 5.000000001 file\0", "")
    status, output, _ = file("stat", "to-file")
    record, target, end = output.split(b"\0")
    assert (status, record[:2], target, end) == (OK, b"l ", b"file", b"")
    assert file("stat", "to-outside")[1].split(b"\0")[1] == b"../outside"
    assert file("stat", "dir")[1].startswith(b"d ")
    assert file("stat", ".")[1].endswith(b" .\0")


def test_r36_stat_of_a_link_that_leads_nowhere_or_round_is_its_own(file, tree):
    (tree / "dangling").symlink_to("no\nwhere")
    (tree / "cycle").symlink_to("cycle")
    assert file("stat", "dangling")[1].split(b"\0")[1] == b"no\nwhere"
    assert file("stat", "cycle")[1].split(b"\0")[1] == b"cycle"


def test_stat_of_nothing(file):
    assert file("stat", "missing")[0] == NOT_FOUND
    assert file("stat", "file/below")[0] == WRONG_TYPE


@pytest.mark.parametrize("path", OUTSIDE_PATHS)
def test_fs05_g38_nothing_outside_the_root_is_described_or_removed_or_made(file, tree, path):
    assert file("stat", path)[:2] == (OUTSIDE, b"")
    assert file("remove", path)[0] == OUTSIDE
    assert file("remove", path, "--recursive")[0] == OUTSIDE
    assert file("mkdir", path + "-new", "--mode", "755", "--parents")[0] == OUTSIDE
    assert file("move", path, "--to-root", tree, "--to", "moved")[0] == OUTSIDE
    assert file("move", "file", "--to-root", tree, "--to", path, "--replace")[0] == OUTSIDE
    assert untouched(tree)
    assert (tree / "file").exists()


# remove


def test_remove_takes_files_links_and_empty_directories(file, tree):
    (tree / "empty").mkdir()
    for name in ("file", "to-file", "to-outside", "empty"):
        assert file("remove", name) == (OK, b"", "")
        assert not os.path.lexists(tree / name)
    assert untouched(tree)


def test_remove_of_a_full_directory_must_be_asked_for(file, tree):
    assert file("remove", "dir")[0] == NOT_EMPTY
    assert (tree / "dir" / "inner").exists()
    assert file("remove", "dir", "--recursive")[0] == OK
    assert not (tree / "dir").exists()


def test_remove_follows_no_link_inside_the_tree(file, tree):
    (tree / "dir" / "out").symlink_to("../../outside")
    (tree / "dir" / "absolute").symlink_to(tree.parent / "outside")
    assert file("remove", "dir", "--recursive")[0] == OK
    assert untouched(tree)


def test_remove_is_bounded_before_anything_goes(file, tree):
    for i in range(20):
        (tree / "dir" / str(i)).touch()
    assert file("remove", "dir", "--recursive", "--max", 20)[0] == TOO_LARGE
    assert len(list((tree / "dir").iterdir())) == 21
    assert file("remove", "dir", "--recursive", "--max", 21)[0] == OK


def test_remove_of_many_and_of_deep(file, tree):
    for i in range(5000):
        os.close(os.open(tree / "dir" / f"{i}-{'x' * 200}", os.O_CREAT))
    deep = tree / "deep"
    for _ in range(200):
        deep = deep / "d"
    deep.mkdir(parents=True)
    assert file("remove", "dir", "--recursive")[0] == OK
    assert file("remove", "deep", "--recursive")[0] == OK
    assert not (tree / "deep").exists()


def test_remove_of_a_tree_deeper_than_it_can_go_leaves_it(file, tree):
    fd = os.open(tree, os.O_PATH)
    for _ in range(300):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_PATH, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    assert file("remove", "d", "--recursive")[0] == TOO_LARGE
    assert (tree / "d" / "d").exists()


@pytest.mark.parametrize("path", ["", ".", "..", "dir/", "dir/.", "dir/.."])
def test_remove_needs_a_name(file, tree, path):
    assert file("remove", path, "--recursive")[0] in (WRONG_TYPE, OTHER)
    assert (tree / "dir" / "inner").exists()


def test_remove_where_the_caller_may_not(file, open_dir):
    (open_dir / "kept").touch()
    assert file("remove", "kept", root=open_dir, user=1000, group=1000)[0] == DENIED


# move


def move(file, tree, path, to, *options, to_root=None):
    return file("move", path, "--to-root", to_root or tree, "--to", to, *options)[0]


def test_move_renames_files_directories_and_links(file, tree):
    assert move(file, tree, "file", "dir/file") == OK
    assert (tree / "dir" / "file").read_bytes() == b"0123456789"
    assert move(file, tree, "dir", "other") == OK
    assert (tree / "other" / "inner").exists()
    assert move(file, tree, "to-outside", "link") == OK
    assert os.readlink(tree / "link") == "../outside"


def test_move_replaces_only_when_asked(file, tree):
    (tree / "there").write_bytes(b"old")
    assert move(file, tree, "file", "there") == EXISTS
    assert (tree / "there").read_bytes() == b"old"
    assert move(file, tree, "file", "there", "--replace") == OK
    assert (tree / "there").read_bytes() == b"0123456789"
    assert move(file, tree, "there", "dir") == EXISTS
    (tree / "empty").mkdir()
    assert move(file, tree, "empty", "dir", "--replace") == NOT_EMPTY


def test_move_of_what_is_not_there_or_into_what_is_not(file, tree):
    assert move(file, tree, "missing", "new") == NOT_FOUND
    assert move(file, tree, "file", "missing/new") == NOT_FOUND
    assert (tree / "file").exists()


def test_move_to_another_filesystem_says_so(file, tree, small_tmpfs):
    assert move(file, tree, "file", "file", to_root=small_tmpfs) == OTHER_FILESYSTEM
    assert (tree / "file").exists()


# mkdir


def test_mkdir_sets_the_mode_whatever_the_umask(file, tree):
    assert file("mkdir", "new", "--mode", "0770", umask=0o077)[0] == OK
    assert stat.S_IMODE((tree / "new").stat().st_mode) == 0o770
    assert file("mkdir", "new", "--mode", "755")[0] == EXISTS
    assert file("mkdir", "a/b", "--mode", "755")[0] == NOT_FOUND
    assert file("mkdir", "a/b", "--mode", "755", "--parents")[0] == OK
    assert file("mkdir", "a/b", "--mode", "755", "--parents")[0] == OK
    assert file("mkdir", "file", "--mode", "755", "--parents")[0] == EXISTS
    assert file("mkdir", "file/x", "--mode", "755", "--parents")[0] == WRONG_TYPE
    assert file("mkdir", "to-file", "--mode", "755", "--parents")[0] == EXISTS


# writing into a file


def write_into(file, path, data, offset, *options, decided=None):
    digest = hashlib.sha256(data if decided is None else decided).hexdigest()
    words = ("--mode", "600", "--max", 10**6, "--sha256", digest, "--offset", offset)
    return file("write", path, *words, *options, data=data)[0]


def left_temporary(tree):
    return list(tree.rglob(".opensafe-*"))


def test_write_into_a_file_keeps_its_inode_and_the_rest(file, tree):
    inode = (tree / "file").stat().st_ino
    assert write_into(file, "file", b"ab", 3) == OK
    assert (tree / "file").read_bytes() == b"012ab56789"
    assert write_into(file, "file", b"xyz", 12) == OK
    assert (tree / "file").read_bytes() == b"012ab56789\0\0xyz"
    assert write_into(file, "to-file", b"!", 0) == OK
    assert (tree / "file").read_bytes() == b"!12ab56789\0\0xyz"
    assert ((tree / "file").stat().st_ino, left_temporary(tree)) == (inode, [])


def test_r39_write_into_a_file_leaves_no_tail_when_asked(file, tree):
    assert write_into(file, "file", b"ab", 1, "--truncate") == OK
    assert (tree / "file").read_bytes() == b"0ab"
    assert write_into(file, "file", b"", 0, "--truncate") == OK
    assert (tree / "file").read_bytes() == b""


def test_write_into_a_file_that_is_not_there_makes_it(file, tree):
    assert write_into(file, "dir/new", b"ab", 2) == OK
    assert (tree / "dir" / "new").read_bytes() == b"\0\0ab"
    assert stat.S_IMODE((tree / "dir" / "new").stat().st_mode) == 0o600


def test_t12_write_into_a_file_touches_nothing_where_the_content_is_not_what_was_decided(file, tree):
    assert write_into(file, "file", b"other", 0, "--truncate", decided=b"this!") == NOT_DECIDED
    assert (tree / "file").read_bytes() == b"0123456789"
    assert left_temporary(tree) == []


@pytest.mark.parametrize("offset", [2**63 - 1, 2**53])
def test_r34_write_at_the_edge_of_offsets_is_an_error(file, tree, offset):
    status = write_into(file, "file", b"ab", offset)
    assert status == TOO_LARGE or (tree / "file").stat().st_size == offset + 2
    assert left_temporary(tree) == []


# G39: a directory that is exchanged with a link to the outside while the calls run


def test_r36_g39_swapping_a_directory_meanwhile_never_gets_out(file, tree):
    (tree / "swap").mkdir()
    (tree / "other").symlink_to("../outside")
    libc = ctypes.CDLL(None, use_errno=True)
    stop = threading.Event()
    here, there = bytes(tree / "swap"), bytes(tree / "other")

    def swap():
        while not stop.is_set():
            libc.renameat2(-100, here, -100, there, EXCHANGE)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        seen = set()
        for i in range(60):
            seen.add(file("mkdir", f"swap/d{i}", "--mode", "755")[0])
            seen.add(file("remove", "swap/secret")[0])
            seen.add(move(file, tree, f"swap/d{i}", f"swap/e{i}"))
    finally:
        stop.set()
        swapper.join()
    assert seen <= {OK, OUTSIDE, NOT_FOUND, OTHER}
    assert {OK, OUTSIDE} <= seen  # both were met, so there was a race
    assert untouched(tree)


# watch


class Watch:
    def __init__(self, native, tree, *options):
        words = [native / "guest" / "file", "watch", tree, ".", *options]
        self.child = popen(words, stdout=subprocess.PIPE).__enter__()
        self.rest = b""
        assert self.next() == (b"s", b"d", b"")

    def next(self):
        while b"\0" not in self.rest:
            data = os.read(self.child.stdout.fileno(), 65536)
            assert data, "the watch ended"
            self.rest += data
        record, self.rest = self.rest.split(b"\0", 1)
        event, self.cookie, kind, path = record.split(b" ", 3)
        return event, kind, path

    def until(self, *wanted):
        seen = [self.next()]
        while seen[-1] != wanted:
            seen.append(self.next())
        return seen

    def end(self):
        self.child.kill()
        self.child.wait()
        self.child.stdout.close()


@pytest.fixture
def watch(native, tree):
    made = []

    def make(*options):
        made.append(Watch(native, tree, *options))
        return made[-1]

    yield make
    for one in made:
        one.end()


def test_watch_tells_what_happens_to_names(watch, tree):
    seen = watch()
    (tree / "new\n1").write_bytes(b"x")
    assert (b"c", b"f", b"new\n1") in seen.until(b"w", b"f", b"new\n1")
    (tree / "new\n1").rename(tree / "renamed")
    seen.until(b"f", b"f", b"new\n1")
    cookie = seen.cookie
    seen.until(b"t", b"f", b"renamed")
    assert seen.cookie == cookie != b"0"
    (tree / "renamed").chmod(0o600)
    seen.until(b"a", b"f", b"renamed")
    (tree / "renamed").unlink()
    seen.until(b"d", b"f", b"renamed")


def test_watch_of_one_directory_leaves_out_those_below(watch, tree):
    seen = watch()
    (tree / "dir" / "below").touch()
    (tree / "mark").touch()
    assert all(b"below" not in path for _, _, path in seen.until(b"c", b"f", b"mark"))


def test_watch_follows_into_directories_old_and_new(watch, tree):
    seen = watch("--recursive")
    (tree / "dir" / "below").touch()
    seen.until(b"c", b"f", b"dir/below")
    (tree / "fresh" / "deep").mkdir(parents=True)
    (tree / "fresh" / "deep" / "file").touch()
    seen.until(b"c", b"f", b"fresh/deep/file")
    (tree / "fresh").rename(tree / "moved")
    seen.until(b"t", b"d", b"moved")
    (tree / "moved" / "deep" / "file").unlink()
    seen.until(b"d", b"f", b"moved/deep/file")


def test_watch_tells_nothing_of_a_directory_that_left(watch, tree):
    """Nor of what lies in it; where it comes back it is watched again, and all that it holds then is told."""
    outside = tree.parent / "outside"
    (tree / "dir" / "deep").mkdir()
    (tree / "stays" / "deep").mkdir(parents=True)
    seen = watch("--recursive")
    (tree / "dir").rename(outside / "left")
    for directory in (outside / "left", outside / "left" / "deep", tree / "stays" / "deep"):
        (directory / "later").touch()
    (tree / "mark").touch()
    told = seen.until(b"c", b"f", b"mark")
    assert (b"f", b"d", b"dir") in told
    assert (b"c", b"f", b"stays/deep/later") in told  # the twin
    assert [path for _, _, path in told if b"dir/" in path] == []
    (outside / "left").rename(tree / "back")
    seen.until(b"c", b"f", b"back/deep/later")
    (tree / "back" / "deep" / "new").touch()
    seen.until(b"c", b"f", b"back/deep/new")


def test_watch_has_room_for_others_where_a_directory_left(watch, tree):
    seen = watch("--recursive", "--max", "2")
    (tree / "dir").rename(tree.parent / "outside" / "left")
    (tree / "fresh").mkdir()
    (tree / "fresh" / "file").touch()
    told = seen.until(b"c", b"f", b"fresh/file")
    assert not [event for event in told if event[0] == b"x"]
    (tree / "one-too-many").mkdir()
    seen.until(b"x", b"d", b"one-too-many")


def test_watch_never_leaves_by_a_link(watch, tree):
    seen = watch("--recursive")
    (tree.parent / "outside" / "hidden").touch()
    (tree / "mark").touch()
    assert all(b"hidden" not in path for _, _, path in seen.until(b"c", b"f", b"mark"))
    (tree.parent / "outside" / "hidden").unlink()


def test_watch_says_where_its_bound_ends_it(watch, tree):
    seen = watch("--recursive", "--max", "2")
    (tree / "one-too-many").mkdir()
    seen.until(b"x", b"d", b"one-too-many")


def test_watch_ends_with_its_directory(native, tree):
    words = [native / "guest" / "file", "watch", tree, "dir"]
    with popen(words, stdout=subprocess.PIPE) as child:
        assert child.stdout.read(6) == b"s 0 d "
        (tree / "dir" / "inner").unlink()
        (tree / "dir").rmdir()
        assert child.stdout.read().endswith(b"g 0 d \0")
    assert child.returncode == OK


def test_watch_of_what_is_no_directory(file):
    assert file("watch", "file")[0] == WRONG_TYPE
    assert file("watch", "missing")[0] == NOT_FOUND
    assert file("watch", "to-outside")[0] in (OUTSIDE, WRONG_TYPE)

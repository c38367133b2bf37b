"""file: reads, writes and lists beneath a root, whatever the paths and the tree in it are made of."""

import ctypes
import hashlib
import os
import pathlib
import socket
import subprocess
import threading

import pytest

from tests.native.support import popen

pytestmark = pytest.mark.root

OK, USAGE, NOT_FOUND, OUTSIDE, WRONG_TYPE, TOO_LARGE, NO_SPACE, DENIED, OTHER = 0, 2, 10, 11, 12, 13, 14, 15, 16
NOT_DECIDED = 17
SECRET = b"secret outside the root"
EXCHANGE = 2  # RENAME_EXCHANGE


@pytest.fixture
def tree(tmp_path):
    """root/ with some content, beside it a sibling with a secret."""
    root = tmp_path / "ws"
    (root / "dir").mkdir(parents=True)
    (root / "file").write_bytes(b"0123456789")
    (root / "dir" / "inner").write_bytes(b"inner")
    for name in ("ws-evil", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "secret").write_bytes(SECRET)
    return root


@pytest.fixture
def file(native, tree):
    """file(verb, path, *options, data=…): (status, output, errors)."""

    def run(verb, path, *options, data=b"", root=tree, **popen):
        words = [native / "guest" / "file", verb, root, path, *map(str, options)]
        done = subprocess.run(words, input=data, capture_output=True, timeout=20, **popen)
        assert done.stderr.count(b"\n") == (0 if done.returncode == OK else 10 if done.returncode == USAGE else 1)
        return done.returncode, done.stdout, done.stderr.decode()

    return run


@pytest.fixture
def write(file):
    """write(path, data, decided=…): the status. What was decided is what is sent, unless told otherwise."""

    def run(path, data=b"new", *, decided=None, most=1000, mode="644", **options):
        digest = sha256(data if decided is None else decided)
        words = ("--mode", mode, "--max", most, "--sha256", digest)
        status, output, _ = file("write", path, *words, data=data, **options)
        assert output == b""
        return status

    return run


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def outside_is_untouched(tree):
    for name in ("ws-evil", "outside"):
        assert [path.name for path in (tree.parent / name).iterdir()] == ["secret"]
        assert (tree.parent / name / "secret").read_bytes() == SECRET
    return True


def no_temporary_is_left(tree):
    return not list(tree.rglob(".opensafe-*"))


# paths; each escape with a twin that stays inside

ESCAPES = {
    "dotdot": "../outside/secret",
    "dotdot-inside-path": "dir/../../outside/secret",
    "FS-09-sibling-prefix": "../ws-evil/secret",
    "absolute": "/etc/passwd",
    "R36-symlink-final": "to-secret",
    "R36-symlink-intermediate": "to-outside/secret",
    "R36-symlink-absolute": "to-absolute/secret",
    "R36-symlink-chain": "to-chain/secret",
    "R36-symlink-cyclic": "cycle-a",
    "R37-symlink-dotdot": "dir/to-dir/../../../outside/secret",
    "FS-02-magic-link": "proc-root/etc/passwd",
}


@pytest.fixture
def links(tree):
    (tree / "to-secret").symlink_to("../outside/secret")
    (tree / "to-outside").symlink_to("../outside")
    (tree / "to-absolute").symlink_to(tree.parent / "outside")
    (tree / "to-chain").symlink_to("to-outside")
    (tree / "cycle-a").symlink_to("cycle-b")
    (tree / "cycle-b").symlink_to("cycle-a")
    (tree / "dir" / "to-dir").symlink_to(".")
    (tree / "proc-root").symlink_to("/proc/self/root")
    (tree / "to-file").symlink_to("file")
    (tree / "to-inner").symlink_to("dir/../dir/inner")
    return tree


@pytest.mark.parametrize("path", ESCAPES.values(), ids=ESCAPES)
def test_fs05_fs08_reading_outside_the_root_is_refused(file, links, path):
    status, output, _ = file("read", path)
    assert (status, output) == (OUTSIDE, b"")


@pytest.mark.parametrize("path", ESCAPES.values(), ids=ESCAPES)
def test_fs05_fs08_writing_outside_the_root_is_refused(write, links, path):
    assert write(path) == OUTSIDE
    assert outside_is_untouched(links)
    assert no_temporary_is_left(links.parent)


@pytest.mark.parametrize("path", ["..", "../outside", "to-outside", "to-absolute", "/etc", "dir/../.."])
def test_fs05_listing_outside_the_root_is_refused(file, links, path):
    status, output, _ = file("list", path)
    assert (status, output) == (OUTSIDE, b"")


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("file", b"0123456789"),
        ("dir/../file", b"0123456789"),
        ("dir//inner", b"inner"),
        ("./dir/./inner", b"inner"),
        ("to-file", b"0123456789"),
        ("to-inner", b"inner"),
        ("dir/to-dir/to-dir/inner", b"inner"),
    ],
)
def test_reading_inside_the_root_works(file, links, path, content):
    assert file("read", path) == (OK, content, "")


@pytest.mark.parametrize(
    ("path", "lands_in"),
    [
        ("file", "file"),
        ("dir/../fresh", "fresh"),
        ("dir/inner", "dir/inner"),
        ("dir/to-dir/fresh", "dir/fresh"),
        ("to-file", "file"),
        ("to-inner", "dir/inner"),
    ],
)
def test_writing_inside_the_root_works(write, links, path, lands_in):
    assert write(path, b"new content") == OK
    assert (links / lands_in).read_bytes() == b"new content"
    assert (links / "to-file").is_symlink()
    assert no_temporary_is_left(links)


def test_r37_a_link_to_a_name_that_does_not_exist_yet(write, file, tree):
    (tree / "dangling-inside").symlink_to("dir/later")
    (tree / "dangling-outside").symlink_to("../outside/later")
    (tree / "dangling-absolute").symlink_to(tree.parent / "outside" / "later")
    (tree / "dangling-dir").symlink_to("nowhere")
    assert file("read", "dangling-inside")[0] == NOT_FOUND
    assert write("dangling-inside") == OK
    assert (tree / "dir" / "later").read_bytes() == b"new"
    assert write("dangling-outside") == OUTSIDE
    assert write("dangling-absolute") == OUTSIDE
    assert write("dangling-dir/file") == NOT_FOUND
    assert outside_is_untouched(tree)
    assert not (tree / "nowhere").exists()


def test_root_that_is_a_symlink_is_refused(file, tree):
    planted = tree.parent / "planted"
    planted.symlink_to(tree)
    assert file("read", "file", root=planted)[0] == OUTSIDE


def test_fs06_swapping_a_directory_for_a_symlink_meanwhile_never_gets_out(write, tree):
    """Another process exchanges root/swap with a symlink to the outside as fast as it can."""
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
        seen = {write(f"swap/deep/file-{i}") for i in range(150)}
    finally:
        stop.set()
        swapper.join()
    assert seen <= {OK, OUTSIDE, NOT_FOUND, OTHER}
    assert {OK, OUTSIDE} <= seen  # both were met, so there was a race
    assert outside_is_untouched(tree)


# types


@pytest.fixture
def specials(tree):
    os.mkfifo(tree / "fifo")
    os.mknod(tree / "null", 0o20666, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tree / "socket"))
        yield tree


@pytest.mark.parametrize("name", ["fifo", "null", "socket", "dir", "."])
def test_r36_fs14_only_regular_files_are_read(file, specials, name):
    status, output, _ = file("read", name)
    assert (status, output) == (WRONG_TYPE, b"")


@pytest.mark.parametrize("name", ["fifo", "null", "socket", "dir", ".", "dir/", "file/below"])
def test_r36_only_regular_files_are_replaced(write, specials, name):
    kind = (specials / "fifo").lstat().st_mode
    assert write(name) == WRONG_TYPE
    assert (specials / "fifo").lstat().st_mode == kind


# reading


@pytest.mark.parametrize(
    ("options", "content"),
    [
        (["--offset", "3"], b"3456789"),
        (["--length", "4"], b"0123"),
        (["--offset", "8", "--length", "100"], b"89"),
        (["--offset", "100"], b""),
        (["--length", "0"], b""),
        (["--offset", "9223372036854775807"], b""),
    ],
)
def test_ranges(file, options, content):
    assert file("read", "file", *options) == (OK, content, "")


def test_large_binary_content_is_read_whole(file, tree):
    content = os.urandom(1 << 20) + b"tail"
    (tree / "large").write_bytes(content)
    assert file("read", "large") == (OK, content, "")


def test_missing_names(file):
    assert file("read", "missing")[0] == NOT_FOUND
    assert file("read", "missing/below")[0] == NOT_FOUND
    assert file("read", "file/below")[0] == WRONG_TYPE


def test_permissions_of_the_caller_hold(file, write, open_dir):
    (open_dir / "closed").write_bytes(SECRET)
    (open_dir / "closed").chmod(0o600)
    as_user = {"root": open_dir, "user": 1000, "group": 1000}
    assert file("read", "closed", **as_user)[0] == DENIED
    assert write("new", **as_user) == DENIED
    (open_dir / "closed").chmod(0o644)
    assert file("read", "closed", **as_user) == (OK, SECRET, "")


# writing


def test_write_sets_content_mode_and_parents(write, tree):
    previous = os.umask(0o077)
    try:
        assert write("a/b/c", b"content", mode="751") == OK
    finally:
        os.umask(previous)
    assert (tree / "a/b/c").read_bytes() == b"content"
    assert (tree / "a/b/c").stat().st_mode & 0o7777 == 0o751
    assert (tree / "a").stat().st_mode & 0o7777 == 0o755
    assert (tree / "a/b").stat().st_mode & 0o7777 == 0o755


def test_r39_overwriting_large_by_small_leaves_no_tail(write, tree):
    (tree / "file").write_bytes(b"x" * 100000)
    assert write("file", b"small") == OK
    assert (tree / "file").read_bytes() == b"small"


def test_write_replaces_the_name_and_not_the_inode(write, tree):
    os.link(tree / "file", tree / "hard-link")
    assert write("file") == OK
    assert (tree / "hard-link").read_bytes() == b"0123456789"


@pytest.mark.parametrize(("size", "status"), [(1000, OK), (1001, TOO_LARGE), (200000, TOO_LARGE), (0, OK)])
def test_write_is_capped_and_leaves_the_old_content(write, tree, size, status):
    data = b"x" * size
    assert write("file", data, most=1000) == status
    assert (tree / "file").read_bytes() == (data if status == OK else b"0123456789")
    assert no_temporary_is_left(tree)


DECIDED = bytes(range(256)) * 1000  # more than is moved at a time


@pytest.mark.parametrize("content", [DECIDED, b"x", b""], ids=["long", "one-byte", "empty"])
def test_t12_the_content_that_was_decided_is_written(write, tree, content):
    assert write("file", content, most=len(content)) == OK
    assert (tree / "file").read_bytes() == content
    assert no_temporary_is_left(tree)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (DECIDED[:-1] + b"x", NOT_DECIDED),
        (b"x" + DECIDED[1:], NOT_DECIDED),
        (DECIDED[:-1], NOT_DECIDED),
        (b"", NOT_DECIDED),
        (DECIDED + b"x", TOO_LARGE),
    ],
    ids=["last-byte", "first-byte", "short", "empty", "long"],
)
def test_t12_other_content_than_was_decided_leaves_the_old(write, tree, sent, status):
    assert write("file", sent, decided=DECIDED, most=len(DECIDED)) == status
    assert write("new", sent, decided=DECIDED, most=len(DECIDED)) == status
    assert (tree / "file").read_bytes() == b"0123456789"
    assert not (tree / "new").exists()
    assert no_temporary_is_left(tree)


def test_t12_content_where_none_was_decided_leaves_the_old(write, tree):
    assert write("file", b"x", decided=b"", most=0) == TOO_LARGE
    assert write("file", b"x", decided=b"", most=1) == NOT_DECIDED
    assert (tree / "file").read_bytes() == b"0123456789"


def test_t12_the_refusal_is_one_line_that_says_why(file):
    words = ("--mode", "644", "--max", "9", "--sha256", sha256(b"decided"))
    assert file("write", "file", *words, data=b"other")[2] == "file: write: content is not what was decided: file\n"


def test_rs06_full_filesystem_leaves_the_old_content(write, small_tmpfs):
    (small_tmpfs / "file").write_bytes(b"old")
    assert write("file", b"x" * 100000, most=1 << 20, root=small_tmpfs) == NO_SPACE
    assert (small_tmpfs / "file").read_bytes() == b"old"
    assert no_temporary_is_left(small_tmpfs)
    assert write("file", b"x" * 1000, most=1 << 20, root=small_tmpfs) == OK


@pytest.mark.parametrize("number", ["TERM", "INT", "HUP"])
def test_signal_in_the_middle_neither_stops_nor_tears_the_write(native, tree, number):
    words = [native / "guest" / "file", "write", tree, "file", "--mode", "644", "--max", "100"]
    words += ["--sha256", sha256(b"first second")]
    with popen(words, stdin=subprocess.PIPE) as child:
        child.stdin.write(b"first ")
        child.stdin.flush()
        while no_temporary_is_left(tree):
            os.sched_yield()
        subprocess.run(["/bin/kill", f"-{number}", str(child.pid)], check=True)
        child.communicate(b"second")
    assert child.returncode == OK
    assert (tree / "file").read_bytes() == b"first second"


# listing


def entries(output):
    fields = [record.split(b" ", 4) for record in output.split(b"\0")[:-1] if record != b"+"]
    return {name: (kind, int(size), mode) for kind, size, mode, _, name in fields}


def test_list_shows_type_size_mode_and_raw_names(file, specials):
    odd = b"a b\nc\xff"
    pathlib.Path(os.fsdecode(bytes(specials) + b"/dir/" + odd)).write_bytes(b"123")
    (specials / "link").symlink_to("nowhere")
    (specials / "file").chmod(0o640)
    status, output, _ = file("list", ".")
    assert status == OK
    listed = entries(output)
    assert listed[b"file"] == (b"f", 10, b"0640")
    assert {name: listed[name][0] for name in (b"dir", b"link", b"fifo", b"socket", b"null")} == {
        b"dir": b"d",
        b"link": b"l",
        b"fifo": b"p",
        b"socket": b"s",
        b"null": b"c",
    }
    assert entries(file("list", "dir")[1])[odd][:2] == (b"f", 3)


def test_list_shows_the_time_of_the_last_change_to_the_nanosecond(file, tree):
    os.utime(tree / "file", ns=(0, 1_700_000_000_000_000_042))
    os.utime(tree / "dir", ns=(0, -1_000_000_000))
    records = file("list", ".")[1].split(b"\0")
    assert b"f 10 0644 1700000000.000000042 file" in records
    assert any(record.endswith(b" -1.000000000 dir") for record in records)


def test_list_is_in_order_of_bytes_and_paged_by_a_name(file, tree):
    """A page is what follows a name, whatever is made or removed between two pages."""
    names = sorted(f"entry-{i}-{'x' * 100}".encode() for i in range(600))
    for name in names:
        (tree / "dir" / name.decode()).touch()
    (tree / "dir" / "inner").unlink()
    assert list(entries(file("list", "dir")[1])) == names
    seen, after = [], b""
    while True:
        status, output, _ = file("list", "dir", "--max", "250", "--after", after.hex())
        assert status == OK
        page = list(entries(output))
        seen += page
        after = page[-1]
        if not output.endswith(b"\0+\0"):
            break
        (tree / "dir" / page[0].decode()).unlink()
        (tree / "dir" / "a-new-one-before-them-all").touch()
    assert seen == names


@pytest.mark.parametrize(("most", "more"), [(599, True), (600, False), (601, False), (0, False)])
def test_list_says_whether_more_follows(file, tree, most, more):
    for i in range(599):
        (tree / "dir" / f"entry-{i}").touch()
    status, output, _ = file("list", "dir", "--max", most)
    assert (status, len(entries(output))) == (OK, min(most, 600))
    assert output.endswith(b"\0+\0") == more


def test_list_holds_a_full_page(file, tree):
    for i in range(10001):
        os.close(os.open(tree / "dir" / f"{i:05}", os.O_CREAT))
    status, output, _ = file("list", "dir", "--max", 2**62)
    assert status == OK
    assert list(entries(output)) == [f"{i:05}".encode() for i in range(10000)]
    assert output.endswith(b"\0+\0")


def test_list_of_what_is_no_directory(file):
    assert file("list", "file")[0] == WRONG_TYPE
    assert file("list", "missing")[0] == NOT_FOUND


# the command line

EMPTY = sha256(b"")


@pytest.mark.parametrize(
    "words",
    [
        ["read", "file", "--max", "1"],
        ["read", "file", "--offset", "-1"],
        ["read", "file", "--offset"],
        ["read", "file", "--length", "9223372036854775808"],
        ["write", "file", "--max", "1", "--sha256", EMPTY],
        ["write", "file", "--mode", "644", "--sha256", EMPTY],
        ["write", "file", "--mode", "644", "--max", "1"],
        ["write", "file", "--mode", "4755", "--max", "1", "--sha256", EMPTY],
        ["write", "file", "--mode", "999", "--max", "1", "--sha256", EMPTY],
        ["write", "file", "--mode", "644", "--max", "1", "--sha256", EMPTY[:-1]],
        ["write", "file", "--mode", "644", "--max", "1", "--sha256", EMPTY + "0"],
        ["write", "file", "--mode", "644", "--max", "1", "--sha256", EMPTY.upper()],
        ["write", "file", "--mode", "644", "--max", "1", "--sha256", ""],
        ["read", "file", "--sha256", EMPTY],
        ["delete", "file"],
        ["write", "file", "--mode", "644", "--max", "1", "--sha256", EMPTY, "--truncate"],
        ["list", ".", "--after", "0"],
        ["list", ".", "--after", "0g"],
        ["list", ".", "--after", "61" * 256],
        ["stat", "file", "--max", "1"],
        ["move", "file", "--to", "other"],
        ["move", "file", "--to-root", "/tmp"],
        ["move", "file", "--to-root", "tmp", "--to", "other"],
        ["mkdir", "new"],
        ["remove", "file", "--force"],
        ["list", ".", "--max", "many"],
    ],
)
def test_wrong_command_lines_are_refused(file, tree, words):
    assert file(*words)[0] == USAGE
    assert (tree / "file").read_bytes() == b"0123456789"


def test_relative_root_is_refused(file):
    assert file("read", "file", root="ws")[0] == USAGE


def test_error_is_one_line_and_names_the_path(file):
    assert file("read", "no\nsuch\x1b")[2] == "file: read: ENOENT: no?such?\n"


def test_overlong_names_are_refused(file, write):
    assert file("read", "x" * 256)[0] == OTHER
    assert write("x" * 256) == OTHER
    assert write("x" * 255) == OK
    assert write("x/" * 2047 + "yy") == OTHER

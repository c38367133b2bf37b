"""Who a name or number is in an image, and what a start refuses of it."""

import os

import pytest

from opensafe.errors import InvalidArgument, UnknownUser, WardenRefused
from opensafe.model.sandbox import User
from opensafe.warden.sandbox import users

PASSWD = """root:x:0:0:root:/root:/bin/bash
toor:x:0:0::/toor:/bin/sh
dev:x:1001:1002:A Developer,,,:/home/dev:/bin/bash
runner:x:990:990::/:/bin/sh
4711:x:1003:1003::/:/bin/sh
1001:x:1004:1004::/:/bin/sh
dev:x:1005:1005::/:/bin/sh
minus:x:-1:0::/:/bin/sh
large:x:4294967295:0::/:/bin/sh
largest:x:4294967294:4294967294::/:/bin/sh
no name:x:5:5::/:/bin/sh
short:x:6:6::/
sp:x:7:7::/with space:/bin/sh
relative:x:8:8::home:/bin/sh
::::::
"""
GROUP = "root:x:0:\nusers:x:100:dev,other\ndev:x:1002:dev\nwheel:x:10:other,dev\nbroken:x:a:dev\n"
DEV = User(name="dev", uid=1001, gid=1002, groups=(10, 100), home="/home/dev")
_images = iter(range(1 << 20))


@pytest.fixture
def find(tmp_path):
    """find(asked): in an image of these files."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(PASSWD)
    (tmp_path / "etc/group").write_text(GROUP)
    digest = f"sha256:{next(_images)}"
    return lambda asked: users.find(tmp_path, digest, asked)


def test_by_name_and_by_number_with_the_groups_that_list_it(find):
    assert find("dev") == find("1001") == DEV
    assert find("root") == find("0") == User(name="root", uid=0, gid=0, home="/root")


def test_the_sandbox_s_own_uid_needs_no_line(find):
    assert find("1000") is None


def test_another_name_of_uid_0_is_granted_as_root(find):
    assert find("toor").granted_as == "root"
    assert find("dev").granted_as == "dev"


@pytest.mark.parametrize(
    "asked", ["minus", "large", "-1", "4294967295", "no name", "short", "", "other", "1003x", "4711"]
)
def test_what_is_no_user_is_none_and_those_there_are_are_named(find, asked):
    with pytest.raises(UnknownUser) as caught:
        find(asked)
    assert caught.value.value == asked
    assert caught.value.limit.split(", ")[:3] == ["root", "toor", "dev"]


def test_the_largest_id_is_one_and_an_odd_home_is_none(find):
    assert find("largest").uid == 4294967294
    assert find("sp").home == find("relative").home == "/"


def test_the_runners_own_uid_is_nobody_s(find):
    for asked in ("runner", "990"):
        with pytest.raises((InvalidArgument, UnknownUser)):
            find(asked)


@pytest.mark.parametrize("place", ["etc/passwd", "etc"])
def test_no_link_leads_to_another_file(tmp_path, place):
    outside, root = tmp_path / "outside", tmp_path / "root"
    (outside / "etc").mkdir(parents=True)
    (outside / "etc/passwd").write_text(PASSWD)
    (root / place).parent.mkdir(parents=True)
    os.symlink(outside / place, root / place)
    with pytest.raises(UnknownUser, match="names none"):
        users.find(root, f"sha256:{next(_images)}", "dev")
    assert users.find(outside, f"sha256:{next(_images)}", "dev") is not None


def test_a_pipe_in_a_file_s_place_holds_nobody_up(tmp_path):
    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc/passwd")
    with pytest.raises(UnknownUser):
        users.find(tmp_path, f"sha256:{next(_images)}", "dev")


def test_an_image_of_very_many_users_names_some(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("".join(f"u{n}:x:{n}:{n}::/:/bin/sh\n" for n in range(1, 500)))
    with pytest.raises(UnknownUser) as caught:
        users.find(tmp_path, f"sha256:{next(_images)}", "nobody")
    assert caught.value.limit.endswith("and 479 more")


def test_a_start_takes_the_image_s_user_that_was_granted_and_no_other(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(PASSWD)
    (tmp_path / "etc/group").write_text(GROUP)
    digest = f"sha256:{next(_images)}"
    users.check(tmp_path, digest, DEV, ("dev",))
    with pytest.raises(WardenRefused, match="does not grant"):
        users.check(tmp_path, digest, DEV, ("root",))
    for forged in (
        User(name="dev", uid=0, gid=1002, groups=(10, 100), home="/home/dev"),
        User(name="dev", uid=1001, gid=0, groups=(10, 100), home="/home/dev"),
        User(name="dev", uid=1001, gid=1002, groups=(0, 10, 100), home="/home/dev"),
    ):
        with pytest.raises(WardenRefused):
            users.check(tmp_path, digest, forged, ("dev", "root"))

"""An image is put in its place whole, harmless, and without taking a running sandbox's files away."""

import os
import stat
import subprocess

import pytest

from opensafe.errors import InvalidArgument
from opensafe.image import manifest
from opensafe.image.place import staged

pytestmark = pytest.mark.root


def build(images, content, name="x"):
    with staged(images, name) as image:
        (image.rootfs / "f").write_text(content)
        image.source = "a test"
    return images / name


def test_a_build_makes_the_tree_and_says_what_it_is(tmp_path):
    made = build(tmp_path, "one")
    stated = manifest.read(made)
    assert stated.digest == "sha256:" + manifest.tree_digest(made / "rootfs")
    assert (stated.name, stated.source, stated.left_out) == ("x", "a test", 0)
    assert (made / "rootfs/workspace").is_dir()
    assert stat.S_IMODE((made / "rootfs/tmp").stat().st_mode) == 0o1777
    assert os.listdir(tmp_path) == ["x"]


def test_g48_only_root_walks_in_and_the_guest_sees_its_own_modes(tmp_path):
    made = build(tmp_path, "one")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert stat.S_IMODE((made / "rootfs").stat().st_mode) == 0o755


def test_a_build_that_fails_leaves_the_image_before_it(tmp_path):
    made = build(tmp_path, "one")
    with pytest.raises(ZeroDivisionError), staged(tmp_path, "x") as image:
        (image.rootfs / "f").write_text(str(1 // 0))
    assert (made / "rootfs/f").read_text() == "one"
    assert os.listdir(tmp_path) == ["x"]


def test_a_tree_that_is_some_process_s_root_stays_until_a_later_build(tmp_path):
    made = build(tmp_path, "one")
    held = subprocess.Popen(
        ["/usr/bin/python3", "-c", f"import os; os.chroot({str(made / 'rootfs')!r}); print('in', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert held.stdout is not None
    held.stdout.readline()
    build(tmp_path, "two")
    assert (made / "rootfs/f").read_text() == "two"
    [old] = [name for name in os.listdir(tmp_path) if name != "x"]
    assert (tmp_path / old / "rootfs/f").read_text() == "one"
    held.communicate(b"\n")
    build(tmp_path, "three")
    assert os.listdir(tmp_path) == ["x"]


def test_set_id_bits_capabilities_and_special_files_are_not_in_an_image(tmp_path):
    with staged(tmp_path, "x") as image:
        program = image.rootfs / "p"
        program.touch()
        program.chmod(0o6755)
        # struct vfs_ns_cap_data, revision 2: CAP_NET_RAW
        os.setxattr(program, "security.capability", bytes.fromhex("0100000200200000000000000000000000000000"))
        os.mkfifo(image.rootfs / "pipe")
        os.mknod(image.rootfs / "null", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    rootfs = tmp_path / "x/rootfs"
    assert stat.S_IMODE((rootfs / "p").stat().st_mode) == 0o755
    assert os.listxattr(rootfs / "p") == []
    assert not (rootfs / "pipe").exists()
    assert not (rootfs / "null").exists()
    assert manifest.read(tmp_path / "x").left_out == 2


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "A", "-x", "a" * 33, "x\n"])
def test_a_name_that_no_template_can_have_is_refused(tmp_path, name):
    with pytest.raises(InvalidArgument), staged(tmp_path, name):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("place", ["workspace", "tmp", "dev", "etc"])
def test_a_link_where_something_gets_mounted_is_refused(tmp_path, place):
    with pytest.raises(InvalidArgument, match=place), staged(tmp_path, "x") as image:
        (image.rootfs / place).symlink_to("/")
    assert os.listdir(tmp_path) == []

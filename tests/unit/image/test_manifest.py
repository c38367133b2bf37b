"""The digests of an image see every change that a guest could see; the cheap one without reading."""

import os

import pytest

from opensafe.image import inspect
from opensafe.image.manifest import stat_digest, tree_digest
from opensafe.image.place import staged


def tree(root):
    (root / "d").mkdir(parents=True)
    (root / "d/file").write_text("content")
    (root / "link").symlink_to("d/file")
    return root


CHANGES = {
    "content": lambda root: (root / "d/file").write_text("other.."),
    "mode": lambda root: (root / "d/file").chmod(0o755),
    "new file": lambda root: (root / "d/new").touch(),
    "link target": lambda root: ((root / "link").unlink(), (root / "link").symlink_to("d")),
    "name": lambda root: (root / "d/file").rename(root / "d/renamed"),
    "gone": lambda root: (root / "d/file").unlink(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_digest_of_a_tree_sees_every_change(tmp_path, change):
    one, two = tree(tmp_path / "one"), tree(tmp_path / "two")
    assert tree_digest(one) == tree_digest(two), "where and when it was built does not matter"
    change(two)
    assert tree_digest(one) != tree_digest(two)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_the_digest_of_stat_sees_what_is_changed_in_place(tmp_path, change):
    root = tree(tmp_path / "one")
    before = stat_digest(root)
    assert stat_digest(root) == before
    change(root)
    assert stat_digest(root) != before


def test_what_was_changed_under_its_old_times_is_seen_by_a_deep_look(tmp_path):
    with staged(tmp_path, "x") as image:
        (image.rootfs / "f").write_text("abc")
    file = tmp_path / "x/rootfs/f"
    status = file.stat()
    [looked] = inspect.look(tmp_path, deep=True)
    assert looked.intact
    file.write_text("abd")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert [one.fault for one in inspect.look(tmp_path, deep=False)] == [""]
    assert [one.fault for one in inspect.look(tmp_path, deep=True)] == ["content changed since it was built"]

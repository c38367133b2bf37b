"""Which directories may become a guest's root."""

import pathlib

import pytest

from opensafe.errors import SandboxStartFailed
from opensafe.image import manifest
from opensafe.image.place import staged
from opensafe.warden.sandbox import image

MANIFEST = '{"digest": "sha256:abc", "name": "any"}'


@pytest.fixture
def images(tmp_path):
    """A good image `base`, made of nothing."""
    (tmp_path / "base" / "rootfs").mkdir(parents=True)
    (tmp_path / "base" / "manifest.json").write_text(MANIFEST)
    return tmp_path


def variant(images: pathlib.Path, name: str) -> pathlib.Path:
    (images / name).mkdir()
    (images / name / "manifest.json").write_text(MANIFEST)
    return images / name / "rootfs"


def test_a_directory_with_a_manifest_is_an_image(images):
    assert image.find(images, "base") == image.Image(images / "base" / "rootfs", "sha256:abc")


@pytest.mark.parametrize("target", ["/", "../base/rootfs", "/nowhere"])
def test_fs_25_a_root_that_is_a_symlink_is_refused(images, target):
    variant(images, "other").symlink_to(target)
    with pytest.raises(SandboxStartFailed, match=r"not a directory|missing"):
        image.find(images, "other")


def test_fs_25_an_image_that_is_a_symlink_is_refused(images):
    (images / "other").symlink_to("base")
    with pytest.raises(SandboxStartFailed, match="not a directory"):
        image.find(images, "other")


def test_fs_25_the_host_itself_is_refused(images, monkeypatch):
    # A bind mount of / can't be made here; what samefile would say of it can.
    variant(images, "other").mkdir()
    monkeypatch.setattr("os.path.samefile", lambda *_: True)
    with pytest.raises(SandboxStartFailed, match="its root is the host's"):
        image.find(images, "other")


@pytest.mark.parametrize("manifest", ["", "{}", "[]", '{"digest": 1}'])
def test_a_manifest_that_says_nothing_is_refused(images, manifest):
    variant(images, "other").mkdir()
    (images / "other" / "manifest.json").write_text(manifest)
    with pytest.raises(SandboxStartFailed):
        image.find(images, "other")


def test_a_file_and_nothing_are_refused(images):
    variant(images, "other").write_text("")
    for name in ("other", "none-such"):
        with pytest.raises(SandboxStartFailed):
            image.find(images, name)


def test_an_image_is_used_only_while_its_tree_is_as_it_was_built(tmp_path):
    with staged(tmp_path, "base") as built:
        (built.rootfs / "f").write_text("one")
    images = image.Images(tmp_path)
    assert images.find("base").digest == manifest.read(tmp_path / "base").digest
    with staged(tmp_path, "base") as built:
        (built.rootfs / "f").write_text("two")
    assert images.find("base").digest == manifest.read(tmp_path / "base").digest  # another image of that name
    (tmp_path / "base/rootfs/f").write_text("changed")
    with pytest.raises(SandboxStartFailed, match="not as it was built"):
        image.Images(tmp_path).find("base")


def test_a_manifest_without_the_digest_of_stat_is_refused(images):
    with pytest.raises(SandboxStartFailed, match="not as it was built"):
        image.Images(images).find("base")


def built(images, name, content):
    with staged(images, name) as made:
        (made.rootfs / "f").write_text(content)
    return manifest.read(images / name).digest


def reads(monkeypatch):
    """How often a manifest was read since."""
    read, count = manifest.read, []

    def counted(directory):
        count.append(directory)
        return read(directory)

    monkeypatch.setattr(manifest, "read", counted)
    return count


def test_an_image_that_is_known_is_not_read_again(tmp_path, monkeypatch):
    built(tmp_path, "base", "one")
    images = image.Images(tmp_path)
    first = images.find("base")
    count = reads(monkeypatch)
    assert [images.find("base"), images.of("base", first.digest)] == [first, first]
    assert count == []
    built(tmp_path, "base", "two")
    assert images.find("base") != first
    assert count != []


def test_an_image_that_is_known_may_not_become_a_link_or_go(tmp_path):
    built(tmp_path, "base", "one")
    images = image.Images(tmp_path)
    images.find("base")
    (tmp_path / "base/rootfs").rename(tmp_path / "elsewhere")
    with pytest.raises(SandboxStartFailed, match="missing"):
        images.find("base")
    (tmp_path / "base/rootfs").symlink_to("../elsewhere")
    with pytest.raises(SandboxStartFailed, match="not a directory"):
        images.find("base")


def test_a_sandbox_keeps_the_image_that_it_was_made_of(tmp_path, monkeypatch):
    """The tree that was replaced stays while somebody has it as root, as of a sandbox that runs."""
    monkeypatch.setattr("opensafe.image.place._sweep", lambda _: None)
    first, second = built(tmp_path, "base", "one"), built(tmp_path, "base", "two")
    images = image.Images(tmp_path)
    assert (images.of("base", first).rootfs / "f").read_text() == "one"
    assert (images.of("base", second).rootfs / "f").read_text() == "two"
    third = built(tmp_path, "base", "three")
    assert [(images.of("base", one).rootfs / "f").read_text() for one in (first, second, third)] == [
        "one",
        "two",
        "three",
    ]


def test_an_image_of_which_nothing_is_left_is_said_to_be_gone(tmp_path):
    built(tmp_path, "base", "one")
    with pytest.raises(SandboxStartFailed, match="not there any more"):
        image.Images(tmp_path).of("base", "sha256:other")

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

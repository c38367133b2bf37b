"""OCI layouts are unpacked as their layers say, and nothing in them leads out of the tree."""

import gzip
import hashlib
import io
import json
import os
import pathlib
import stat
import tarfile

import pytest

from opensafe.errors import InvalidArgument, LimitExceeded
from opensafe.image import manifest, oci, unpack

pytestmark = pytest.mark.root

TAR = "application/vnd.oci.image.layer.v1.tar"


def entry(name, content=b"", **fields):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for field, value in fields.items():
        setattr(member, field, value)
    return member, content


def directory(name, mode=0o755):
    return entry(name, type=tarfile.DIRTYPE, mode=mode)


def symlink(name, target):
    return entry(name, type=tarfile.SYMTYPE, linkname=target)


def hardlink(name, target):
    return entry(name, type=tarfile.LNKTYPE, linkname=target)


def layer(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for member, content in entries:
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


class Layout:
    """An OCI layout in the making."""

    def __init__(self, path):
        self.path = path
        (path / "blobs/sha256").mkdir(parents=True)

    def blob(self, data, media_type, **more):
        name = hashlib.sha256(data).hexdigest()
        (self.path / "blobs/sha256" / name).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{name}", "size": len(data), **more}

    def index(self, *descriptors):
        (self.path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": descriptors}))

    def image(self, *layers, zipped=False):
        kind = f"{TAR}+gzip" if zipped else TAR
        described = [self.blob(gzip.compress(data) if zipped else data, kind) for data in layers]
        return self.blob(json.dumps({"layers": described}).encode(), "application/vnd.oci.image.manifest.v1+json")


@pytest.fixture
def layout(tmp_path):
    return Layout(tmp_path / "layout")


@pytest.fixture
def images(tmp_path):
    return tmp_path / "images"


def built(layout, images, *layers, zipped=False) -> pathlib.Path:
    layout.index(layout.image(*layers, zipped=zipped))
    oci.build(images, "x", layout.path)
    return images / "x/rootfs"


@pytest.mark.parametrize("zipped", [False, True])
def test_layers_lie_upon_each_other_and_whiteouts_hide_what_is_below(layout, images, zipped):
    below = layer(
        directory("./etc"),
        entry("etc/a", b"one", mode=0o640, uid=7, gid=8),
        entry("etc/b", b"gone"),
        directory("var/full"),
        entry("var/full/old", b"old"),
        symlink("link", "/etc/passwd"),
        hardlink("etc/c", "etc/a"),
    )
    above = layer(
        entry("etc/.wh.b"),
        # The marker comes after what it must not hide.
        entry("var/full/new", b"new"),
        entry("var/full/.wh..wh..opq"),
        entry("/etc/a", b"two", mode=0o4755),
    )
    rootfs = built(layout, images, below, above, zipped=zipped)
    assert (rootfs / "etc/a").read_bytes() == b"two"
    assert stat.S_IMODE((rootfs / "etc/a").stat().st_mode) == 0o755
    status = (rootfs / "etc/c").stat()
    assert ((rootfs / "etc/c").read_bytes(), status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (
        *(b"one", 7, 8),
        0o640,
    )
    assert not (rootfs / "etc/b").exists()
    assert os.listdir(rootfs / "var/full") == ["new"]
    assert os.readlink(rootfs / "link") == "/etc/passwd"
    assert manifest.read(images / "x").source.startswith("OCI image sha256:")


def test_the_same_layout_gives_the_same_digest(layout, images):
    content = layer(directory("d"), entry("d/f", b"x"), symlink("l", "d"))
    built(layout, images, content)
    first = manifest.read(images / "x").digest
    built(layout, images, content)
    assert manifest.read(images / "x").digest == first


def test_devices_and_pipes_are_left_out_and_counted(layout, images):
    rootfs = built(
        layout,
        images,
        layer(
            entry("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
            entry("disk", type=tarfile.BLKTYPE, devmajor=8),
            entry("pipe", type=tarfile.FIFOTYPE),
            entry("file"),
        ),
    )
    assert not {"null", "disk", "pipe"} & set(os.listdir(rootfs))
    assert manifest.read(images / "x").left_out == 3


#: Stands for a directory of the test's own.
OUTSIDE = "OUTSIDE"
ESCAPES = {
    "climbs": [entry("../evil", b"x")],
    "climbs inside": [directory("d"), entry("d/../../evil", b"x")],
    "through a link": [symlink("d", OUTSIDE), entry("d/evil", b"x")],
    "through a relative link": [symlink("d", "../.."), entry("d/evil", b"x")],
    "through a link to itself": [symlink("d", "."), entry("d/evil", b"x")],
    "over a file": [entry("d", b"x"), entry("d/evil", b"x")],
    "hard link out": [hardlink("evil", "../../../../etc/passwd")],
    "hard link to the host": [hardlink("evil", "/etc/passwd")],
    "hard link to a link": [symlink("l", "/etc/passwd"), hardlink("evil", "l")],
    "hard link through a link": [symlink("d", OUTSIDE), hardlink("evil", "d/kept")],
    "whiteout that climbs": [entry("../.wh.evil")],
    "whiteout of the parent": [directory("d"), entry("d/.wh...")],
    "deep": [entry("/".join("d" * 200), b"x")],
    "owner": [entry("f", b"x", uid=2**33)],
}


@pytest.mark.parametrize("entries", ESCAPES.values(), ids=ESCAPES.keys())
def test_what_leads_out_refuses_the_image(layout, images, tmp_path, entries):
    images.mkdir()
    (tmp_path / "evil").write_text("mine")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    for member, _ in entries:
        member.linkname = member.linkname.replace(OUTSIDE, str(outside))
    with pytest.raises(InvalidArgument):
        built(layout, images, layer(*entries))
    assert os.listdir(images) == []
    assert (tmp_path / "evil").read_text() == "mine"
    assert os.listdir(outside) == ["kept"]


def test_a_link_in_the_way_of_a_directory_is_replaced_and_not_followed(layout, images, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o700)
    rootfs = built(layout, images, layer(symlink("d", str(outside))), layer(directory("d"), entry("d/f", b"x")))
    assert (rootfs / "d/f").read_bytes() == b"x"
    assert os.listdir(outside) == []


def test_a_whiteout_removes_a_link_and_not_what_it_names(layout, images, tmp_path):
    kept = tmp_path / "outside"
    kept.mkdir()
    rootfs = built(layout, images, layer(symlink("d", str(kept))), layer(entry(".wh.d")))
    assert not (rootfs / "d").is_symlink()
    assert kept.exists()


def test_b50_what_unpacks_to_too_much_is_refused(layout, images, monkeypatch):
    monkeypatch.setattr(oci, "_BYTES_MAX", 1 << 20)
    with pytest.raises(LimitExceeded):
        built(layout, images, layer(entry("zeros", b"\0" * (2 << 20))), zipped=True)
    monkeypatch.setattr(oci, "_BYTES_MAX", 8 << 20)
    monkeypatch.setattr(unpack, "_BYTES_MAX", 1 << 20)
    with pytest.raises(LimitExceeded):
        built(layout, images, layer(entry("zeros", b"\0" * (2 << 20))))
    monkeypatch.setattr(unpack, "_BYTES_MAX", 4 << 20)
    built(layout, images, layer(entry("zeros", b"\0" * (2 << 20))))  # the twin


def test_too_many_entries_and_layers_are_refused(layout, images, monkeypatch):
    monkeypatch.setattr(unpack, "_ENTRIES_MAX", 3)
    with pytest.raises(LimitExceeded):
        built(layout, images, layer(*(entry(str(n)) for n in range(4))))
    with pytest.raises(LimitExceeded):
        built(layout, images, *[layer()] * 257)
    with pytest.raises(LimitExceeded):
        built(layout, images)


def test_a_blob_that_is_not_what_its_digest_says_is_refused(layout, images):
    described = layout.blob(layer(entry("f", b"x")), TAR)
    (layout.path / "blobs/sha256" / described["digest"][7:]).write_bytes(layer(entry("f", b"y")))
    layout.index(layout.blob(json.dumps({"layers": [described]}).encode(), "application/json"))
    with pytest.raises(InvalidArgument, match="digest"):
        oci.build(images, "x", layout.path)


@pytest.mark.parametrize(
    "digest", ["", "sha256:../../../etc/passwd", "sha256:" + "G" * 64, "md5:0", "sha512:" + "0" * 128]
)
def test_a_digest_that_is_none_is_refused(layout, images, digest):
    layout.index({"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": 1})
    with pytest.raises(InvalidArgument):
        oci.build(images, "x", layout.path)


def test_a_blob_that_is_a_link_is_refused(layout, images):
    secret = b"{}"
    name = hashlib.sha256(secret).hexdigest()
    target = layout.path / "secret"
    target.write_bytes(secret)
    (layout.path / "blobs/sha256" / name).symlink_to(target)
    layout.index({"mediaType": "application/json", "digest": f"sha256:{name}", "size": 2})
    with pytest.raises(InvalidArgument, match="can't be read"):
        oci.build(images, "x", layout.path)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"manifests": []}', '{"manifests": [{}, {}]}', "[" * 100_000, "\xff"]
)
def test_an_index_that_says_nothing_is_refused(layout, images, text):
    (layout.path / "index.json").write_text(text)
    with pytest.raises(InvalidArgument):
        oci.build(images, "x", layout.path)


def test_what_is_no_layout_is_refused(tmp_path, images):
    with pytest.raises(InvalidArgument, match="no OCI layout"):
        oci.build(images, "x", tmp_path)


@pytest.mark.parametrize("data", [b"", b"x" * 10, b"x" * 5000, layer(entry("f", b"x" * 5000))[:3000]])
def test_a_layer_that_is_no_archive_is_refused_or_empty(layout, images, data):
    with pytest.raises(InvalidArgument):
        built(layout, images, data)


def test_a_layer_of_another_kind_is_refused(layout, images):
    described = layout.blob(layer(), f"{TAR}+zstd")
    layout.index(layout.blob(json.dumps({"layers": [described]}).encode(), "application/json"))
    with pytest.raises(InvalidArgument, match="zstd"):
        oci.build(images, "x", layout.path)


def test_the_image_for_this_machine_is_chosen_from_an_index_of_several(layout, images):
    content = layer(entry("f", b"amd64"))
    ours = {**layout.image(content), "platform": {"architecture": "amd64", "os": "linux"}}
    other = {**layout.image(layer(entry("f", b"arm64"))), "platform": {"architecture": "arm64", "os": "linux"}}
    inner = json.dumps({"manifests": [other, ours]}).encode()
    layout.index(layout.blob(inner, "application/vnd.oci.image.index.v1+json"))
    oci.build(images, "x", layout.path)
    assert (images / "x/rootfs/f").read_bytes() == b"amd64"

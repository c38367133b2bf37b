"""Bundles for a daemon of one's own: signed with a key made for it, under growing numbers."""

import hashlib
import pathlib

import msgspec

from opensafe.policy import archive, keys, sign
from opensafe.policy.manifest import ALLOWED, MANIFEST, Manifest, revision_of


class SignedBundles:
    """What `shipped` holds, and its variants. place: where the daemon looks; public: the file of the key it trusts."""

    def __init__(self, directory: pathlib.Path, shipped: pathlib.Path) -> None:
        keys.generate(directory)
        self._key = keys.read_private(directory / keys.PRIVATE)
        self.public = directory / keys.PUBLIC
        self.place = directory / "policy.bundle.tar.gz"
        self.members = archive.unpack(archive.read_file(shipped), ALLOWED)
        self._shipped = msgspec.json.decode(self.members[MANIFEST], type=Manifest)
        self.number = self._shipped.number

    def next(self, changed: dict[str, bytes]) -> tuple[bytes, Manifest]:
        """The shipped members, but for those that are `changed`, as an archive under the next number; its manifest."""
        self.number += 1
        files = {**self._shipped.files, **{name: hashlib.sha256(data).hexdigest() for name, data in changed.items()}}
        manifest = msgspec.structs.replace(
            self._shipped, number=self.number, files=files, revision=revision_of(self.number, files)
        )
        members = {**self.members, **changed, MANIFEST: sign.encode(manifest)}
        return archive.pack(sign.signed(members, self._key)), manifest

    def put(self, content: bytes) -> None:
        """Put it in place by a rename."""
        part = self.place.with_name("part")
        part.write_bytes(content)
        part.rename(self.place)

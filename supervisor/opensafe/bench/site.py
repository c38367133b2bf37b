"""Bundles for a bench: signed with a key of its own, under growing numbers."""

import hashlib
import pathlib

import msgspec

from opensafe.policy import archive, keys, sign
from opensafe.policy.manifest import ALLOWED, MANIFEST, WASM, Manifest, revision_of

from .private import programs


class Site:
    """Signed bundles under growing numbers, and the place where the daemon looks for them."""

    def __init__(self, directory: pathlib.Path) -> None:
        keys.generate(directory)
        self._key = keys.read_private(directory / keys.PRIVATE)
        self.public = directory / keys.PUBLIC
        self.place = directory / "policy.bundle.tar.gz"
        self.members = archive.unpack(archive.read_file(pathlib.Path(programs().bundle)), ALLOWED)
        self.number = 1

    def next(self, members: dict[str, bytes]) -> tuple[bytes, Manifest]:
        """`members` as an archive under the next number, and its manifest."""
        self.number += 1
        old = msgspec.json.decode(members[MANIFEST], type=Manifest)
        files = {**old.files, WASM: hashlib.sha256(members[WASM]).hexdigest()}
        manifest = msgspec.structs.replace(
            old, number=self.number, files=files, revision=revision_of(self.number, files)
        )
        content = archive.pack(sign.signed({**members, MANIFEST: sign.encode(manifest)}, self._key))
        return content, manifest

    def put(self, content: bytes) -> None:
        """Put it in place by a rename."""
        part = self.place.with_name("part")
        part.write_bytes(content)
        part.rename(self.place)

    def unknown_module(self) -> dict[str, bytes]:
        """The members with a module that differs from every other by a custom section, which means nothing."""
        text = f"bench {self.number}".encode()
        section = bytes((0, len(text) + 1, len(text))) + text
        return {**self.members, WASM: self.members[WASM] + section}

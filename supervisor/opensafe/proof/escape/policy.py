"""The bundles of a suite's daemon: the shipped rules with settings of the test world, under a key of their own."""

import hashlib
import pathlib
from typing import Any, Final

import msgspec

from opensafe.policy import archive, keys, sign
from opensafe.policy.manifest import ALLOWED, CONFIG, MANIFEST, Manifest, revision_of

#: Hosts that the site allows. Those of *.trap.test have whatever address their name spells.
KEPT: Final = ("allowed.test", "git.test", "pypi.test")
TRAPS: Final = "*.trap.test"
_OPENED_BLOCKS: Final = 10_000


class Bundles:
    """Bundles under growing numbers, at one `place`. `public`: the file of the key that they are signed for."""

    def __init__(self, directory: pathlib.Path, shipped: pathlib.Path) -> None:
        keys.generate(directory)
        self.public = directory / keys.PUBLIC
        self.place = directory / "policy.bundle.tar.gz"
        self._key = keys.read_private(directory / keys.PRIVATE)
        self._members = archive.unpack(archive.read_file(shipped), ALLOWED)
        self._number = msgspec.json.decode(self._members[MANIFEST], type=Manifest).number

    def put(self, *, traps: bool) -> str:
        """Put the next one in place, by a rename, and return its revision.

        traps: whether the names that spell an address are allowed.
        """
        self._number += 1
        settings = msgspec.json.decode(self._members[CONFIG])
        self._open(settings, traps)
        config = msgspec.json.encode(settings, order="sorted")
        old = msgspec.json.decode(self._members[MANIFEST], type=Manifest)
        files = {**old.files, CONFIG: hashlib.sha256(config).hexdigest()}
        revision = revision_of(self._number, files)
        manifest = msgspec.structs.replace(old, number=self._number, files=files, revision=revision)
        members = {**self._members, CONFIG: config, MANIFEST: sign.encode(manifest)}
        part = self.place.with_name("part")
        part.write_bytes(archive.pack(sign.signed(members, self._key)))
        part.rename(self.place)
        return revision

    def _open(self, settings: dict[str, Any], traps: bool) -> None:
        settings["hosts"]["allowed"] = [*KEPT, *([TRAPS] if traps else [])]
        # A probe is refused more often than honest work is; what is asked here is whether any of it gets out.
        settings["ceilings"]["blocks_in_ten_minutes"] = _OPENED_BLOCKS

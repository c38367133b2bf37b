"""Bundles for a bench, one of them with a module that nobody has seen."""

import pathlib

from opensafe.policy.manifest import WASM
from opensafe.proof.private import programs
from opensafe.proof.signed import SignedBundles


class Site(SignedBundles):
    """The bundle of this checkout or installation, and its variants."""

    def __init__(self, directory: pathlib.Path) -> None:
        super().__init__(directory, pathlib.Path(programs().bundle))

    def unknown_module(self) -> dict[str, bytes]:
        """A module that differs from every other by a custom section, which means nothing."""
        text = f"bench {self.number}".encode()
        section = bytes((0, len(text) + 1, len(text))) + text
        return {WASM: self.members[WASM] + section}

"""The bundles of a suite's daemon: the shipped rules with settings of the test world, under a key of their own."""

from typing import Any, Final

import msgspec

from opensafe.policy.manifest import CONFIG
from opensafe.proof.signed import SignedBundles

#: Hosts that the site allows. Those of *.trap.test have whatever address their name spells.
KEPT: Final = ("allowed.test", "git.test", "pypi.test")
TRAPS: Final = "*.trap.test"
#: TLS of this one ends in the gateway, and of its pages these may be asked for.
ENDED: Final = "ended.allowed.test"
ENDED_PAGES: Final = ("/hello",)
_OPENED_BLOCKS: Final = 10_000


class Bundles(SignedBundles):
    """The shipped bundle with other settings."""

    def activate(self, *, traps: bool) -> str:
        """Put the next one in place and return its revision.

        traps: whether the names that spell an address are allowed.
        """
        settings = msgspec.json.decode(self.members[CONFIG])
        self._open(settings, traps)
        content, manifest = self.next({CONFIG: msgspec.json.encode(settings, order="sorted")})
        self.put(content)
        return manifest.revision

    def _open(self, settings: dict[str, Any], traps: bool) -> None:
        settings["hosts"]["allowed"] = [*KEPT, ENDED, *([TRAPS] if traps else [])]
        settings["requests"][ENDED] = {"methods": {"GET": True}, "paths": [*ENDED_PAGES]}
        # A probe is refused more often than honest work is; what is asked here is whether any of it gets out.
        settings["ceilings"]["blocks_in_ten_minutes"] = _OPENED_BLOCKS

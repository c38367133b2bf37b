"""The bundles of a suite's daemon: the shipped rules with settings of the test world, under a key of their own."""

from functools import partial
from typing import Any, Final

from opensafe.policy.manifest import CONFIG
from opensafe.proof.escape.bundles import settings
from opensafe.proof.signed import SignedBundles

#: Hosts that the site allows. Those of *.trap.test have whatever address their name spells.
KEPT: Final = ("allowed.test", "git.test", "pypi.test")
TRAPS: Final = "*.trap.test"
#: TLS of this one ends in the gateway, and of its pages these may be asked for.
ENDED: Final = "ended.allowed.test"
ENDED_PAGES: Final = ("/hello",)


class Bundles(SignedBundles):
    """The shipped bundle with other settings."""

    def activate(self, *, traps: bool) -> str:
        """Put the next one in place and return its revision.

        traps: whether the names that spell an address are allowed.
        """
        content, manifest = self.next({CONFIG: settings(self, partial(_opened, traps))})
        self.put(content)
        return manifest.revision


def _opened(traps: bool, shipped: dict[str, Any]) -> None:
    shipped["hosts"]["allowed"] = [*KEPT, ENDED, *([TRAPS] if traps else [])]
    shipped["requests"][ENDED] = {"methods": {"GET": True}, "paths": [*ENDED_PAGES]}

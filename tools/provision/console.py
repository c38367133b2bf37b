"""The console's browser code that others wrote, by npm: what its pages load, and what its tests look at them with.

npm checks each package against the hash in the lock and runs nothing of it. It works in `build/npm`, so that the source
tree gets the files that are served, with their licences, and no more.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from .apt import AptPackages
from .operation import Stamp, digest
from .runner import Runner
from .site import Site

_INPUTS = ("package.json", "package-lock.json", ".npmrc")
_SERVED = {
    "htmx.min.js": "htmx.org/dist/htmx.min.js",
    "htmx.LICENSE": "htmx.org/LICENSE",
    "sse.js": "htmx-ext-sse/dist/sse.js",
    "sse.LICENSE": "htmx-ext-sse/LICENSE",
    "idiomorph-ext.min.js": "idiomorph/dist/idiomorph-ext.min.js",
    "idiomorph.LICENSE": "idiomorph/LICENSE",
}
_AXE = "axe-core/axe.min.js"


@dataclass(frozen=True, slots=True)
class ConsoleAssets:
    """`assets/vendor` of the console's room, and `build/axe.min.js`."""

    site: Site
    name: str = "console"

    @property
    def vendor(self) -> Path:
        """The directory that the console serves."""
        return self._room / "assets" / "vendor"

    @property
    def axe(self) -> Path:
        """axe-core, which tells what of a page not everybody can use; for the tests alone."""
        return self.site.build / "axe.min.js"

    @property
    def _room(self) -> Path:
        return self.site.root / "supervisor" / "opensafe" / "console"

    @property
    def _outputs(self) -> list[Path]:
        return [*(self.vendor / name for name in _SERVED), self.axe]

    @property
    def _stamp(self) -> Stamp:
        return Stamp(self.site.stamps / self.name)

    def _key(self) -> str:
        return digest(*(self._room / name for name in _INPUTS), *self._outputs)

    def describe(self) -> str:
        """Where the files would go."""
        return f"put what the console serves of others into {self.vendor} with npm: from PATH, else Debian's"

    def is_done(self) -> bool:
        """Whether each file is the one that today's lock gave."""
        return all(path.exists() for path in self._outputs) and self._stamp.holds(self._key())

    def execute(self, run: Runner) -> None:
        """Install by the lock, then copy what is needed of it."""
        if shutil.which("npm") is None:
            AptPackages(self.site, "npm").execute(run)
        home = self.site.build / "npm"
        home.mkdir(parents=True, exist_ok=True)
        for name in _INPUTS:
            shutil.copyfile(self._room / name, home / name)
        run(
            ["npm", "ci", "--include=dev", "--no-progress"],
            cwd=home,
            remedy="check that the npm registry is reachable, then run the same command again",
        )
        shutil.rmtree(self.vendor, ignore_errors=True)
        self.vendor.mkdir(parents=True)
        for name, source in _SERVED.items():
            shutil.copyfile(home / "node_modules" / source, self.vendor / name)
        shutil.copyfile(home / "node_modules" / _AXE, self.axe)
        self._stamp.set(self._key())

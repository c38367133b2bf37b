"""Runner images: Debian trees under the prefix that sandboxes get as their read-only root.

What builds them is `opensafe image build`, as for every other image; pins.toml says what they are made of. `base` is
what a sandbox gets that asks for none; `dev` has developers' tools, which the tests put to work.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .apt import require_root
from .operation import digest, files_below
from .runner import Runner
from .site import Site


@dataclass(frozen=True, slots=True)
class RunnerImage:
    """PREFIX/images/IMAGE: `rootfs/` and `manifest.json`."""

    site: Site
    image: str = "base"
    name: str = "image"

    @property
    def path(self) -> Path:
        """The image's directory."""
        return self.site.prefix / "images" / self.image

    @property
    def _pin(self) -> dict[str, Any]:
        pin: dict[str, Any] = self.site.pins["images"][self.image]
        return pin

    def _recipe(self) -> str:
        builder = files_below(self.site.root / "supervisor" / "opensafe" / "image", ("debian.py", "place.py"))
        return digest(repr(sorted(self._pin.items())), *builder)

    def describe(self) -> str:
        """What the image would be made of."""
        pin = self._pin
        packages = ", ".join(pin["packages"])
        return f"build the image at {self.path}: Debian {pin['suite']} {pin['variant']} with {packages}"

    def is_done(self) -> bool:
        """Whether an image of today's recipe is in place."""
        try:
            manifest = json.loads((self.path / "manifest.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return False
        return isinstance(manifest, dict) and manifest.get("recipe") == self._recipe()

    def execute(self, run: Runner) -> None:
        """Build it in the environment of the checkout."""
        require_root("build the runner image")
        pin = self._pin
        run(
            [
                *(self.site.venv / "bin" / "opensafe", "image", "build", self.image, "--images", self.path.parent),
                *("--suite", pin["suite"], "--variant", pin["variant"], "--include", ",".join(pin["packages"])),
                *("--recipe", self._recipe()),
            ],
            remedy="check that the Debian mirror in /etc/apt is reachable and that the prefix has 1 GB free",
        )

"""Where things are: the checkout, its build directory, and the prefix that is ours alone.

Two places are written and no others: `build/` and `.venv` in the checkout, and the prefix. Nothing that the host
owns is overwritten.
"""

import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEFAULT_PREFIX = "/opt/opensafe"


def _read_pins() -> dict[str, Any]:
    with Path(__file__).with_name("pins.toml").open("rb") as file:
        return tomllib.load(file)


@dataclass(frozen=True, slots=True)
class Site:
    """One checkout and the prefix that its set-up fills."""

    root: Path
    prefix: Path
    pins: dict[str, Any] = field(default_factory=_read_pins)

    @classmethod
    def from_environment(cls) -> "Site":
        """This checkout, with the prefix that `OPENSAFE_PREFIX` names, else /opt/opensafe."""
        prefix = Path(os.environ.get("OPENSAFE_PREFIX") or DEFAULT_PREFIX)
        return cls(root=Path(__file__).resolve().parents[2], prefix=prefix.absolute())

    @property
    def build(self) -> Path:
        """Everything made here that can be made again."""
        return self.root / "build"

    @property
    def venv(self) -> Path:
        """The virtual environment of the checkout, development tools included."""
        return self.root / ".venv"

    @property
    def uv(self) -> Path:
        """The pinned uv, in an environment of its own."""
        return self.build / "uv" / "bin" / "uv"

    @property
    def stamps(self) -> Path:
        """One file per finished step, holding the digest of what it was made from."""
        return self.build / "stamps"

    @property
    def logs(self) -> Path:
        """One file per step with the whole output of the commands it ran."""
        return self.build / "logs"

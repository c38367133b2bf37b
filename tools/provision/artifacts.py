"""What is compiled from this repository: the native programs and the policy bundle.

Both build tools are incremental by themselves; the digest here only saves asking them.
"""

from dataclasses import dataclass
from pathlib import Path

from .operation import Stamp, digest, files_below
from .runner import Runner
from .site import Site


@dataclass(frozen=True, slots=True)
class Native:
    """`build/native`: the static guest programs and the host-side launcher."""

    site: Site
    name: str = "native"

    @property
    def _sources(self) -> Path:
        return self.site.root / "native"

    @property
    def _output(self) -> Path:
        return self.site.build / "native"

    @property
    def _stamp(self) -> Stamp:
        return Stamp(self.site.stamps / self.name)

    def _key(self) -> str:
        return digest(*files_below(self._sources, ("*.c", "*.h", "*.S", "Makefile", "*.mk", "*.py")))

    def describe(self) -> str:
        """What would be compiled."""
        return f"compile native/ into {self._output}"

    def is_done(self) -> bool:
        """Whether the programs were made from today's sources."""
        return self._output.is_dir() and self._stamp.holds(self._key())

    def execute(self, run: Runner) -> None:
        """Run native/Makefile."""
        key = self._key()
        run(
            ["make", "--no-print-directory", "-C", self._sources, f"OUT={self._output}", "all"],
            env={"MAKEFLAGS": ""},
            remedy="native/ is C11 with warnings as errors: see the compiler's output",
        )
        self._stamp.set(key)


@dataclass(frozen=True, slots=True)
class Bundle:
    """`build/policy.bundle.tar.gz`: the policy bundle, tested and made from policies/ with opa."""

    site: Site
    name: str = "bundle"

    @property
    def path(self) -> Path:
        """The bundle."""
        return self.site.build / "policy.bundle.tar.gz"

    @property
    def _stamp(self) -> Stamp:
        return Stamp(self.site.stamps / self.name)

    def _key(self) -> str:
        policies = files_below(self.site.root / "policies", ("*.rego", "*.json", "*.yaml", ".manifest"))
        builder = files_below(self.site.root / "supervisor" / "opensafe" / "policy", ("*.py",))
        return digest(repr(self.site.pins["opa"]), *policies, *builder)

    def describe(self) -> str:
        """What would be built."""
        return f"test policies/ and build {self.path}"

    def is_done(self) -> bool:
        """Whether the bundle was made from today's policies."""
        return self.path.exists() and self._stamp.holds(self._key())

    def execute(self, run: Runner) -> None:
        """Run the builder with the opa of the prefix."""
        key = self._key()
        run(
            [
                self.site.venv / "bin" / "python",
                "-m",
                "opensafe.policy.build",
                "--opa",
                self.site.prefix / "bin" / "opa",
                "--policies",
                self.site.root / "policies",
                "--out",
                self.path,
            ],
            remedy="a policy doesn't compile or its test fails: see the output of opa",
        )
        self._stamp.set(key)

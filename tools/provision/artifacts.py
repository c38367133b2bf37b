"""What is made from this repository: the native programs, a key pair to sign with, the policy bundle.

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
class Keys:
    """`build/keys`: this checkout's own key pair, which signs what is built here. A site signs with its own."""

    site: Site
    name: str = "keys"

    @property
    def private(self) -> Path:
        """The private key, which only its owner may read."""
        return self.site.build / "keys" / "policy.key"

    @property
    def public(self) -> Path:
        """The public key, which a daemon is told to trust."""
        return self.site.build / "keys" / "policy.pub"

    def describe(self) -> str:
        """What would be made."""
        return f"make a key pair in {self.private.parent}"

    def is_done(self) -> bool:
        """Whether there is one."""
        return self.private.exists() and self.public.exists()

    def execute(self, run: Runner) -> None:
        """Make one; half a pair is of no use and goes."""
        for half in (self.private, self.public):
            half.unlink(missing_ok=True)
        run(
            [self.site.venv / "bin" / "opensafe", "policy", "keygen", self.private.parent],
            remedy="check who may write to build/",
        )


@dataclass(frozen=True, slots=True)
class Bundle:
    """`build/policy.bundle.tar.gz`: the policy bundle, tested and made from policies/ with opa, signed.

    Its number is the time of the newest source, in seconds: it grows with every change, and the same tree gives the
    same bundle.
    """

    site: Site
    name: str = "bundle"

    @property
    def path(self) -> Path:
        """The bundle."""
        return self.site.build / "policy.bundle.tar.gz"

    @property
    def _stamp(self) -> Stamp:
        return Stamp(self.site.stamps / self.name)

    def _sources(self) -> list[Path]:
        policies = files_below(self.site.root / "policies", ("*.rego", "*.json", "*.yaml", ".manifest"))
        builder = files_below(self.site.root / "supervisor" / "opensafe" / "policy", ("*.py",))
        return [*policies, *builder, Keys(self.site).public]

    def _key(self) -> str:
        return digest(repr(self.site.pins["opa"]), *self._sources())

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
                "--key",
                Keys(self.site).private,
                "--revision",
                str(max(int(path.stat().st_mtime) for path in self._sources())),
            ],
            remedy="a policy doesn't compile or its test fails: see the output of opa",
        )
        self._stamp.set(key)

"""uv and the checkout's virtual environment, both from hashed locks.

One environment serves `make demo` and `make test`: with two, each would undo what the other installed.
"""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from .operation import Stamp, digest
from .runner import Runner
from .site import Site

SYSTEM_PYTHON = Path("/usr/bin/python3.11")
RETRY = "check that the Python package index is reachable, then run the same command again"


def interpreter() -> Path:
    """The Python for the environment: the system's, which the service user may execute, else the one running."""
    return SYSTEM_PYTHON if SYSTEM_PYTHON.exists() else Path(sys.executable)


def environment_is_usable(directory: Path) -> bool:
    """Whether the environment still has a Python: its link dangles after the interpreter was removed."""
    return (directory / "bin" / "python").exists()


@dataclass(frozen=True, slots=True)
class Uv:
    """The pinned uv in `build/uv`: it makes the environment, so it can't live in it."""

    site: Site
    name: str = "uv"

    @property
    def _lock(self) -> Path:
        return Path(__file__).with_name("requirements-uv.lock")

    @property
    def _stamp(self) -> Stamp:
        return Stamp(self.site.stamps / self.name)

    def describe(self) -> str:
        """Where uv would go."""
        return f"install the pinned uv into {self.site.uv.parents[1]}"

    def is_done(self) -> bool:
        """Whether the uv of the lock is installed."""
        return self.site.uv.exists() and self._stamp.holds(digest(self._lock))

    def execute(self, run: Runner) -> None:
        """Make an environment with pip and let pip install uv by hash."""
        home = self.site.uv.parents[1]
        run(
            [interpreter(), "-m", "venv", "--clear", home],
            remedy="install python3-venv (Debian 12: apt-get install python3-venv)",
        )
        run(
            [
                home / "bin" / "python",
                "-m",
                "pip",
                "install",
                "--require-hashes",
                "--no-deps",
                "--quiet",
                "--disable-pip-version-check",
                "-r",
                self._lock,
            ],
            remedy=RETRY,
        )
        self._stamp.set(digest(self._lock))


@dataclass(frozen=True, slots=True)
class Venv:
    """`.venv`: every locked package by hash, and the project itself as an editable install."""

    site: Site
    name: str = "venv"

    @property
    def _lock(self) -> Path:
        return self.site.root / "requirements-dev.lock"

    @property
    def _stamp(self) -> Stamp:
        return Stamp(self.site.stamps / self.name)

    def _key(self) -> str:
        return digest(self._lock, self.site.root / "pyproject.toml", str(self.site.root), str(interpreter()))

    def describe(self) -> str:
        """Where the environment would go and from which lock."""
        return f"make {self.site.venv} with {interpreter()} from {self._lock.name}"

    def is_done(self) -> bool:
        """Whether the environment was made from today's lock, project file and place."""
        command = self.site.venv / "bin" / "opensafe"
        return command.exists() and environment_is_usable(self.site.venv) and self._stamp.holds(self._key())

    def execute(self, run: Runner) -> None:
        """Sync to the lock (what is not in it is removed), then install the project without touching the network."""
        uv = self.site.uv
        env = {"UV_NO_CONFIG": "1", "UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy"}
        if self.site.venv.exists() and not environment_is_usable(self.site.venv):
            shutil.rmtree(self.site.venv)
        if not self.site.venv.exists():
            run(
                [uv, "venv", "--quiet", "--python", interpreter(), self.site.venv],
                env=env,
                remedy="remove .venv and run the same command again",
            )
        run(
            [
                uv,
                "pip",
                "sync",
                "--quiet",
                "--python",
                self.site.venv,
                "--require-hashes",
                "--compile-bytecode",
                self._lock,
            ],
            env=env,
            remedy=RETRY,
        )
        run(
            [
                uv,
                "pip",
                "install",
                "--quiet",
                "--python",
                self.site.venv,
                "--offline",
                "--no-deps",
                "--no-build-isolation",
                "--editable",
                self.site.root,
            ],
            env=env | {"PATH": f"{self.site.venv / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"},
            remedy="the build backend is setuptools from the lock: see the output",
        )
        self._stamp.set(self._key())


@dataclass(frozen=True, slots=True)
class Peers:
    """`build/peers`: what the benches compare with, which can't share the checkout's environment."""

    site: Site
    name: str = "peers"

    @property
    def _lock(self) -> Path:
        return Path(__file__).with_name("requirements-peers.lock")

    @property
    def _stamp(self) -> Stamp:
        return Stamp(self.site.stamps / self.name)

    @property
    def _home(self) -> Path:
        return self.site.build / "peers"

    def describe(self) -> str:
        """Where they would go."""
        return f"install the peers of `opensafe bench` into {self._home}"

    def is_done(self) -> bool:
        """Whether those of the lock are installed."""
        return environment_is_usable(self._home) and self._stamp.holds(digest(self._lock, str(interpreter())))

    def execute(self, run: Runner) -> None:
        """Make the environment anew, by hash."""
        env = {"UV_NO_CONFIG": "1", "UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy"}
        uv = self.site.uv
        run([uv, "venv", "--quiet", "--clear", "--python", interpreter(), self._home], env=env, remedy=RETRY)
        run(
            [uv, "pip", "sync", "--quiet", "--python", self._home, "--require-hashes", self._lock],
            env=env,
            remedy=RETRY,
        )
        self._stamp.set(digest(self._lock, str(interpreter())))

"""Debian packages and the service accounts: what the host itself has to provide.

Only what is missing is installed, so a repeated run makes no network call and takes no lock.
"""

import fcntl
import grp
import os
import pwd
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from .runner import Runner, StepError
from .site import Site

LOCK_TIMEOUT_S = 300
LISTS_LOCK = Path("/var/lib/apt/lists/lock")
ENVIRONMENT = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
APT_GET = ("apt-get", "-o", f"DPkg::Lock::Timeout={LOCK_TIMEOUT_S}", "-o", "Acquire::Retries=3")
UNREACHABLE = "check the package sources in /etc/apt and the network"


def require_root(purpose: str) -> None:
    """Raise StepError unless this process is root."""
    if os.geteuid() != 0:
        raise StepError(f"uid {os.geteuid()} may not {purpose}", "run the same command as root")


def wait_for_lists(run: Runner, lock: Path = LISTS_LOCK, timeout_s: int = LOCK_TIMEOUT_S) -> None:
    """Wait until no other apt updates its lists: apt waits by itself for dpkg's lock, but not for this one."""

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise StepError(f"another apt held {lock} for {timeout_s} s", "end it, then run the same command again")

    with lock.open("ab") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            run.say(f"another apt holds {lock}; waiting up to {timeout_s} s")
            before = signal.signal(signal.SIGALRM, give_up)
            signal.alarm(timeout_s)
            try:
                fcntl.lockf(file, fcntl.LOCK_EX)
            finally:
                signal.alarm(0)
                signal.signal(signal.SIGALRM, before)


def update_lists(run: Runner) -> None:
    """Fetch the lists of the host's package sources."""
    wait_for_lists(run)
    run([*APT_GET, "update"], env=ENVIRONMENT, remedy=UNREACHABLE)


@dataclass(frozen=True, slots=True)
class AptPackages:
    """The packages of one section of pins.toml that dpkg doesn't know as installed."""

    site: Site
    name: str = "apt"

    def missing(self) -> list[str]:
        """The packages to install, in the order of pins.toml."""
        wanted: list[str] = self.site.pins[self.name]["packages"]
        answer = subprocess.run(
            ["/usr/bin/dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *wanted],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
            text=True,
        )
        present = {line.split()[0] for line in answer.stdout.splitlines() if line.endswith(" installed")}
        return [package for package in wanted if package not in present]

    def describe(self) -> str:
        """What would be installed."""
        if shutil.which("apt-get") is None:
            return "need Debian packages: " + ", ".join(self.site.pins[self.name]["packages"])
        return "install Debian packages: " + (", ".join(self.missing()) or "none missing")

    def is_done(self) -> bool:
        """Whether every package is installed."""
        return shutil.which("dpkg-query") is not None and not self.missing()

    def execute(self, run: Runner) -> None:
        """Install what is missing, waiting up to 300 s for another apt to finish."""
        if shutil.which("apt-get") is None:
            raise StepError("this host has no apt-get", "use Debian 12, the system that OpenSafe is built for")
        require_root("install packages")
        update_lists(run)
        run(
            [*APT_GET, "install", "-y", "--no-install-recommends", *self.missing()],
            env=ENVIRONMENT,
            remedy="another package manager may hold the lock, or a source is unreachable: see the output",
        )


@dataclass(frozen=True, slots=True)
class Accounts:
    """The users and groups of the processes that hold no privilege."""

    site: Site
    name: str = "account"

    def missing(self) -> list[str]:
        """The accounts of pins.toml that don't exist, or whose group is another."""
        return [user for user in self.site.pins["account"]["users"] if not _exists(user)]

    def describe(self) -> str:
        """Which accounts would be made."""
        names = ", ".join(self.missing()) or "none missing"
        return f"make system users and groups, no home, no shell, no password: {names}"

    def is_done(self) -> bool:
        """Whether each user and group exist and belong together."""
        return not self.missing()

    def execute(self, run: Runner) -> None:
        """Make each group where it is missing, then its user."""
        require_root("make a system user")
        for user in self.missing():
            remedy = f"remove or repair the account {user}: its group has to be {user} as well"
            try:
                grp.getgrnam(user)
            except KeyError:
                run(["/usr/sbin/groupadd", "--system", user], remedy=remedy)
            shape = ["--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
            run(["/usr/sbin/useradd", *shape, "--gid", user, user], remedy=remedy)


def _exists(user: str) -> bool:
    try:
        return pwd.getpwnam(user).pw_gid == grp.getgrnam(user).gr_gid
    except KeyError:
        return False

"""A real console for tests: a process of its own before a daemon, whose pages people open signed in."""

import contextlib
import os
import pathlib
import select
import signal
import subprocess
import sys

from tests.harness.browser import NARROW, WIDE, People

__all__ = ["Console", "Seen"]

_WAIT_S = 60


class Console:
    """`opensafe console` as some principals of a daemon, on a port that is free. Made by `with`: afterwards it has
    ended as it should, said nothing but its links, and left no process.

    address: what its pages are under. said: what it wrote to stderr, as it is then; `take_said` for those who expect
    something. arguments: further ones of the command line.
    """

    def __init__(self, daemon, principals, *arguments):
        self.principals = tuple(principals)
        self._sockets = [f"--socket={daemon.socket_of(name)}" for name in self.principals]
        self._arguments = arguments
        self._links = {}
        self._said = daemon.run / f"console-{id(self)}.log"
        self._cookies = {}

    def __enter__(self):
        command = [sys.executable, "-m", "opensafe.cli", "console", "--listen=127.0.0.1:0", *self._sockets]
        self._told, tells = os.pipe()
        with self._said.open("wb") as said, open(tells, "wb") as links:
            self.process = subprocess.Popen(
                [*command, *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=links,
                stderr=said,
                start_new_session=True,
            )
        try:
            self._read_links()
        except BaseException:
            self._end(signal.SIGKILL)
            raise
        self.address = self._links[self.principals[0]].partition("/sign-in")[0]
        return self

    def __exit__(self, kind, error, trace):
        status = self._end(signal.SIGTERM)
        if error is None and (status, self.said, self.left()) != (0, "", []):
            raise AssertionError(f"the console ended with {status}, left {self.left()} and said:\n{self.said}")

    @property
    def said(self):
        return self._said.read_text(errors="replace")

    def take_said(self):
        """What it wrote until now, which the caller expects."""
        said = self.said
        os.truncate(self._said, 0)
        return said

    def link(self, principal):
        """One that signs in as a principal, and was not given out before."""
        if principal not in self._links:
            self.process.send_signal(signal.SIGHUP)
            self._read_links()
        return self._links.pop(principal)

    def left(self):
        """Processes of its session that still run."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                after = (entry / "stat").read_text().rpartition(") ")[2].split()
                if int(after[3]) == self.process.pid and after[0] != "Z":
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        return found

    async def sign_in(self, people, principal, **how):
        """A page of somebody who signs in by a link of their own; `how` as in People.open."""
        page = await people.open(self.link(principal), **how)
        await page.locator("form[action='/sign-in'] button").click()
        await page.wait_for_url(f"{self.address}/")
        return page

    async def page(self, people, principal, path, **how):
        """A page of somebody who is signed in: the first of a principal by a link, later ones with its cookies, since
        only so many may sign in in a minute.
        """
        if principal not in self._cookies:
            first = await self.sign_in(people, principal)
            self._cookies[principal] = await first.context.cookies()
            await first.context.close()
        page = await people.open(storage_state={"cookies": self._cookies[principal], "origins": []}, **how)
        await page.goto(f"{self.address}{path}")
        return page

    def _read_links(self):
        """A line for each principal: its name, two spaces, the link."""
        self._links = {}
        text = b""
        while text.count(b"\n") < len(self.principals):
            readable, _, _ = select.select([self._told], [], [], _WAIT_S)
            more = os.read(self._told, 4096) if readable else b""
            if not more:
                raise AssertionError(f"the console printed no links: {text!r}\n{self.said}")
            text += more
        self._links = dict(line.split("  ") for line in text.decode().splitlines())

    def _end(self, number):
        self.process.send_signal(number)
        try:
            return self.process.wait(_WAIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            return self.process.wait()
        finally:
            os.close(self._told)


class Seen:
    """A console as one test sees it: `page` opens what it shows, and what goes wrong there is the test's.

    process: the Console behind it.
    """

    def __init__(self, console: Console, people: People) -> None:
        self.process, self._people = console, people
        self.address = console.address

    async def page(self, path="/", *, principal="reviewer", narrow=False, dark=False, language="en", new=False):
        """A page of one of its principals, signed in. new: signed in by a link of its own, to be signed out again."""
        how = {"size": NARROW if narrow else WIDE, "dark": dark, "locale": language}
        if not new:
            return await self.process.page(self._people, principal, path, **how)
        page = await self.process.sign_in(self._people, principal, **how)
        if path != "/":
            await page.goto(f"{self.address}{path}")
        return page

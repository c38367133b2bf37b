"""Runs the commands of one step: whole output to its log, a sign of life to the terminal, a useful failure.

Long builds print nothing for minutes and CI ends jobs that are silent, so a heartbeat carries the last line seen.
"""

import os
import selectors
import shlex
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HEARTBEAT_S = 15.0
TAIL_LINES = 15


class StepError(Exception):
    """A step that could not be finished: what went wrong, what to do, and how to try it by hand.

    `replay` is the shell command that runs the failed command again, `output` the end of what it printed.
    """

    def __init__(self, why: str, remedy: str, *, replay: str = "", output: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy
        self.replay = replay
        self.output = output


def replay_line(argv: Sequence[str], cwd: Path | None, env: Mapping[str, str]) -> str:
    """The line to paste into a shell that runs this command as the set-up did."""
    words = [f"{name}={shlex.quote(value)}" for name, value in sorted(env.items())]
    words.append(shlex.join(argv))
    line = " ".join(words)
    return f"cd {shlex.quote(str(cwd))} && {line}" if cwd else line


@dataclass(slots=True)
class Runner:
    """Runs commands for one step. `say` prints one indented line of progress."""

    log: Path
    say: Callable[[str], None]
    heartbeat_s: float = HEARTBEAT_S
    _started: bool = field(default=False, init=False)

    def __call__(
        self,
        argv: Sequence[str | Path],
        *,
        remedy: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> str:
        """Run a command to its end and return its output (both streams).

        `env` is added to the environment. Raises StepError with `remedy` when it can't start or doesn't exit
        with 0.
        """
        words = [str(word) for word in argv]
        extra = dict(env or {})
        replay = replay_line(words, cwd, extra)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a" if self._started else "w") as log:
            self._started = True
            log.write(f"$ {replay}\n")
            try:
                process = subprocess.Popen(
                    words,
                    cwd=cwd,
                    env={**os.environ, **extra},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
            except OSError as error:
                why = f"{words[0]} can't be started: {error.strerror}"
                raise StepError(why, remedy, replay=replay) from error
            with process:
                try:
                    output = self._drain(process, log.write)
                except BaseException:
                    process.terminate()
                    raise
        if process.returncode != 0:
            tail = "\n".join(output.splitlines()[-TAIL_LINES:])
            why = f"{Path(words[0]).name} exited with {process.returncode}"
            raise StepError(why, remedy, replay=replay, output=tail)
        return output

    def _drain(self, process: subprocess.Popen[bytes], write: Callable[[str], object]) -> str:
        assert process.stdout is not None  # noqa: S101 - opened with PIPE just above
        started = time.monotonic()
        chunks: list[str] = []
        last: deque[str] = deque(maxlen=1)
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(self.heartbeat_s):
                    self.say(f"… {time.monotonic() - started:.0f} s  {last[0][:100] if last else ''}")
                    continue
                data = os.read(process.stdout.fileno(), 65536)
                if not data:
                    return "".join(chunks)
                text = data.decode(errors="replace")
                chunks.append(text)
                last.extend(line for line in text.splitlines() if line.strip())
                write(text)

"""Reports of proof in one directory, as the commands wrote them: which there are, and what stands in one.

Whoever may write there may write anything. A file counts as a report once it is a regular one of bounded size and of
the form that its `schema` names; every other one is left out, and said so.
"""

import os
import pathlib
import stat
from collections import Counter
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec

from opensafe.errors import NotFound

#: Bytes of a report; of all that are read for one look; and how many are kept in sight, the newest of each kind.
REPORT_MAX: Final = 16 << 20
_LOOK_MAX: Final = 256 << 20
KEPT_MAX: Final = 100
_NAMES_MAX: Final = 2000
_SKIPPED_MAX: Final = 20
_SCHEMA: Final = "opensafe."
#: Figures that are shown; a report may hold any number that JSON has.
_NUMBER_MAX: Final = 1e15

#: The kinds that are shown, in this order.
KINDS: Final = ("redteam", "redteam-policy", "redteam-scenarios", "redteam-agentdojo", "escape", "fuzz-campaign",
                "fuzz-mutants", "fuzz")  # fmt: skip

_T = TypeVar("_T")
Value = bool | int | float | str | None


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    """What every report begins with. Its details are read when they are asked for."""

    schema: str
    version: str
    environment: dict[str, Value]
    summary: dict[str, Value]
    details: msgspec.Raw


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One that is there. time_us: of its name, else when it was written; kind: one of KINDS."""

    name: str
    kind: str
    time_us: int
    version: str
    environment: dict[str, Value]
    summary: dict[str, Value]

    @property
    def ok(self) -> bool:
        """Whether it says that all holds."""
        return self.summary.get("ok") is True

    @property
    def bundle(self) -> str:
        """The revision that was tried, where it names one."""
        return str(self.environment.get("bundle") or "")

    def number(self, name: str) -> float | None:
        """A figure of its summary; None where it has none such."""
        found = self.summary.get(name)
        if not isinstance(found, int | float) or isinstance(found, bool):
            return None
        return found if abs(found) <= _NUMBER_MAX else None


class Sight(msgspec.Struct, frozen=True, kw_only=True):
    """What a directory holds. reports: the newest first; left_out: names and why; why: it can't be read, or ""."""

    reports: tuple[Report, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    left_out_more: int = 0
    why: str = ""

    def of(self, kind: str) -> tuple[Report, ...]:
        """Those of a kind, the newest first."""
        return tuple(one for one in self.reports if one.kind == kind)

    def last(self, *kinds: str) -> Report | None:
        """The newest of these kinds."""
        return next((one for one in self.reports if one.kind in kinds), None)


class Shelf:
    """The directory. It blocks: ask it in a thread. A file that did not change is not read again."""

    def __init__(self, directory: pathlib.Path | None) -> None:
        self.directory = directory
        self._known: dict[str, tuple[tuple[int, int, int], Report | str]] = {}

    @property
    def writable(self) -> bool:
        """Whether this process may write there."""
        return self.directory is not None and os.access(self.directory, os.W_OK | os.X_OK)

    def look(self) -> Sight:
        """What there is now."""
        if self.directory is None:
            return Sight(why="no directory of reports")
        try:
            with os.scandir(self.directory) as entries:
                names = sorted((one.name for one in entries if one.name.endswith(".json")), reverse=True)
        except OSError as error:
            return Sight(why=str(error.strerror))
        known: dict[str, tuple[tuple[int, int, int], Report | str]] = {}
        left = _LOOK_MAX
        for name in names[:_NAMES_MAX]:
            found, cost = self._one(name, left)
            if found is not None:
                known[name] = found
                left -= cost
        self._known = known
        reports = sorted(
            (one for _, one in known.values() if isinstance(one, Report)), key=lambda one: (one.time_us, one.name)
        )[::-1]
        bad = [(name, one) for name, (_, one) in known.items() if isinstance(one, str)]
        if len(names) > _NAMES_MAX:
            bad.append(("…", f"{len(names) - _NAMES_MAX} more files"))
        by_kind: Counter[str] = Counter()
        shown = []
        for one in reports:
            by_kind[one.kind] += 1
            if one.kind in KINDS and by_kind[one.kind] <= KEPT_MAX:
                shown.append(one)
        return Sight(
            reports=tuple(shown),
            left_out=tuple(bad[:_SKIPPED_MAX]),
            left_out_more=max(0, len(bad) - _SKIPPED_MAX),
        )

    def read(self, name: str, form: type[_T]) -> _T:
        """The details of a report that `look` told of. Raises NotFound where it is not there any more or no such."""
        if self.directory is None or name not in self._known:
            raise NotFound("there is no such report", value=name)
        try:
            content, _ = content_of(self.directory / name, REPORT_MAX)
            return msgspec.json.decode(msgspec.json.decode(content, type=_Head).details, type=form)
        except (OSError, ValueError, RecursionError) as error:
            raise NotFound(f"the report can't be read: {_said(error)}", value=name) from error

    def _one(self, name: str, left: int) -> tuple[tuple[tuple[int, int, int], Report | str] | None, int]:
        """A file and how many bytes of it were read; None where it went away."""
        path = pathlib.Path(self.directory or "", name)
        mark, cost = (0, 0, 0), 0
        try:
            found = path.lstat()
            mark = (found.st_ino, found.st_size, found.st_mtime_ns)
            if name in self._known and self._known[name][0] == mark:
                return self._known[name], 0
            if left < found.st_size <= REPORT_MAX:
                return (mark, "too much to read at once"), 0
            cost = found.st_size
            content, changed_us = content_of(path, REPORT_MAX)
            return (mark, _report(name, content, changed_us)), len(content)
        except FileNotFoundError:
            return None, 0
        except (OSError, ValueError, RecursionError) as error:
            return (mark, _said(error)), cost


def stamp(when: datetime) -> str:
    """A time as names of reports have it."""
    return f"{when.astimezone(UTC):%Y%m%dT%H%M%S}"


def content_of(path: pathlib.Path, limit: int) -> tuple[bytes, int]:
    """A regular file's bytes and when it was written, in microseconds. Raises OSError, ValueError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("no regular file")
        content = file.read(limit + 1)
        if len(content) > limit:
            raise ValueError(f"longer than {limit >> 20} MiB")
        return content, found.st_mtime_ns // 1000


def _report(name: str, content: bytes, changed_us: int) -> Report | str:
    head = msgspec.json.decode(content, type=_Head)
    kind = head.schema.removeprefix(_SCHEMA).removesuffix("/1")
    if head.schema != f"{_SCHEMA}{kind}/1" or kind not in KINDS:
        return "no report of proof"
    return Report(
        name=name,
        kind=kind,
        time_us=_named(name) or changed_us,
        version=head.version,
        environment=head.environment,
        summary=head.summary,
    )


def _named(name: str) -> int:
    """The time in a name such as redteam-20260131T020000.json; 0 where there is none."""
    try:
        when = datetime.strptime(name.removesuffix(".json").rpartition("-")[2], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return 0
    return int(when.timestamp()) * 10**6


def _said(error: BaseException) -> str:
    if isinstance(error, OSError):
        return str(error.strerror)
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)

"""A report beside the one before it: which rates changed, what is missed now that was not, what is not any more.

Worse is worse: no change is too small, because the same cases are judged the same way each time.
"""

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from opensafe.errors import InvalidArgument

#: Summary fields that are compared, and whether more is better.
_RATES: Final = {
    "block_rate": True,
    "false_block_rate": False,
    "held_out_block_rate": True,
    "held_out_false_block_rate": False,
    "scenarios_block_rate": True,
    "scenarios_false_block_rate": False,
    "attack_success_rate": False,
    "attack_success_rate_unreviewed": False,
    "utility": True,
    "utility_unreviewed": True,
}


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """One that is another now. now: None where it is not measured any more, which is worse."""

    name: str
    before: float
    now: float | None
    worse: bool


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What changed. missed_now: attacks, and honest work that is stopped; missed_no_more: the other way round.

    held_out_worse: of the half that is held out, more are missed or stopped; which, this does not say.
    """

    baseline_version: str
    rates: tuple[Rate, ...]
    missed_now: tuple[str, ...]
    missed_no_more: tuple[str, ...]
    held_out_worse: bool

    @property
    def worse(self) -> bool:
        """Whether it is a regression."""
        return bool(self.missed_now) or self.held_out_worse or any(rate.worse for rate in self.rates)


def read(path: pathlib.Path) -> dict[str, Any]:
    """A report that was kept. Raises InvalidArgument."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidArgument(f"the baseline can't be read: {error}", value=path) from error
    if not all(isinstance(found.get(name), dict) for name in ("summary", "details")) or "schema" not in found:
        raise InvalidArgument("the baseline is no report", value=path, remedy="Name what --json printed.")
    return found


def compare(before: Mapping[str, Any], now: Mapping[str, Any]) -> Compared:
    """The second beside the first. Raises InvalidArgument for reports of different kinds."""
    if before["schema"] != now["schema"]:
        raise InvalidArgument(
            "the baseline is of another set",
            value=before["schema"],
            limit=now["schema"],
            remedy="Compare like with like.",
        )
    old, new = frozenset(_missed(before["details"])), frozenset(_missed(now["details"]))
    return Compared(
        baseline_version=str(before.get("version", "")),
        rates=tuple(_rates(before["summary"], now["summary"])),
        missed_now=tuple(sorted(new - old)),
        missed_no_more=tuple(sorted(old - new)),
        held_out_worse=_held_out(now["details"]) > _held_out(before["details"]),
    )


def lines(compared: Compared) -> Iterator[str]:
    """For people."""
    for rate in compared.rates:
        now = "not measured" if rate.now is None else f"{rate.now:.2%}"
        yield f"{rate.name}: {rate.before:.2%} before, {now} now{' (WORSE)' if rate.worse else ''}"
    yield from (f"missed now: {one}" for one in compared.missed_now)
    yield from (f"missed no more: {one}" for one in compared.missed_no_more)
    if compared.held_out_worse:
        yield "of the held-out half, more is missed or stopped than before"
    if not (compared.rates or compared.missed_now or compared.missed_no_more):
        yield "nothing changed since the baseline"


def _rates(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Rate]:
    for name, up in _RATES.items():
        old, new = before.get(name), now.get(name)
        if not isinstance(old, int | float):
            continue
        if not isinstance(new, int | float):
            yield Rate(name=name, before=old, now=None, worse=True)
        elif old != new:
            yield Rate(name=name, before=old, now=new, worse=(new < old) is up)


def _missed(details: Mapping[str, Any]) -> Iterator[str]:
    """Ids of what is judged wrongly, of whatever set: the whole's, those of a half of the calls, or a set's own."""
    yield from details.get("missed", ())
    yield from details.get("falsely", ())
    yield from (miss["id"] for miss in details.get("dev", {}).get("misses", ()))


def _held_out(details: Mapping[str, Any]) -> int:
    counted = [int(details.get(name, 0)) for name in ("held_out_missed", "held_out_falsely")]
    return sum(counted) + len(details.get("test", {}).get("misses", ()))

"""What `audit tail` and `audit search` do: records as they stand in the log, asked of the daemon."""

import sys
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from opensafe.client import AuditRecord, Client

from . import present
from .connect import ask
from .report import encode, report

_PAGE: Final = 500


def tail(principal: str | None, last: int, start: int | None, *, follow: bool, json: bool) -> int:
    """Print the last records, or those from `start` on. Raises the exceptions of opensafe.errors."""
    collected: list[AuditRecord] = []

    async def work(client: Client) -> None:
        async for record in client.tail_audit(last, follow=follow, from_index=start):
            if json and not follow:
                collected.append(record)
            else:
                _print(record)

    ask(principal, work)
    if json and not follow:
        _report("audit-tail", collected)
    return 0


def search(principal: str | None, wanted: Mapping[str, Any], before: int, last: int, *, json: bool) -> int:
    """Print at most `last` of the records that match. Raises the exceptions of opensafe.errors.

    wanted: what `Client.search_audit` takes.
    """
    collected: list[AuditRecord] = []

    async def work(client: Client) -> int:
        place = before
        while True:
            left = last - len(collected)
            page = await client.search_audit(**wanted, before_index=place, page_size=min(left, _PAGE))
            collected.extend(page.records)
            if not json:
                for record in page.records:
                    _print(record)
            place = page.next_before
            if place == 0 or len(collected) == last:
                return place

    place = ask(principal, work)
    if json:
        _report("audit-search", collected, next_before=place)
    elif place:
        present.say(f"there may be more: --before {place}")
    return 0


def _print(record: AuditRecord) -> None:
    if sys.stdout.isatty():
        present.out(record.line.decode(errors="replace"))
    else:
        sys.stdout.buffer.write(record.line + b"\n")
        sys.stdout.buffer.flush()


def _report(kind: str, records: list[AuditRecord], **more: int) -> None:
    details = [{"index": one.index, "leaf": one.leaf, "record": msgspec.json.decode(one.line)} for one in records]
    present.raw(encode(report(kind, {"records": len(records), **more}, {"records": details})))

"""Points in time on the command line: a span back from now, or a date and time."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from opensafe.errors import InvalidArgument

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def since(text: str | None, option: str = "--since") -> int:
    """Microseconds since the epoch. Raises InvalidArgument."""
    if text is None:
        return 0
    if span := re.fullmatch(r"(\d{1,6})([smhd])", text):
        moment = datetime.now(UTC) - timedelta(**{_UNITS[span[2]]: int(span[1])})
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise InvalidArgument(
                f"{option} takes a span or a time", value=text, remedy="Such as 24h, 7d or 2026-01-31T12:00."
            ) from error
    return int(moment.timestamp() * 10**6)

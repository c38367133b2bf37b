"""How a reader of inline code gives up: on whatever may do more than compute and use files."""

from typing import TypeVar

Found = TypeVar("Found")


class NotModelledError(Exception):
    """The code may do more than compute and use files."""


def require(found: Found | None) -> Found:
    """What was found, or a condition that holds. Raises NotModelledError for None and all else that is false."""
    if not found:
        raise NotModelledError
    return found

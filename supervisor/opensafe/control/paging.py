"""How many items a page of a list has."""

from opensafe.errors import InvalidArgument


def page_size(asked: int, *, usual: int, most: int) -> int:
    """What was asked for, or the `usual` number where that is 0. Raises InvalidArgument beyond `most`."""
    if not 0 <= asked <= most:
        raise InvalidArgument("page_size is out of bounds", value=asked, limit=f"0 to {most}")
    return asked or usual

"""Lists of names, written as one text."""


def names(text: str) -> frozenset[str]:
    """The names that whitespace parts."""
    return frozenset(text.split())

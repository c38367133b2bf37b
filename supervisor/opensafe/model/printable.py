"""Text of agents and guests, for whoever reads it: nothing in it steers a terminal, ends a line or reorders letters."""


def harmless(text: str) -> str:
    """`text` with control, format (bidirectional, zero-width) and unassigned characters as escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)

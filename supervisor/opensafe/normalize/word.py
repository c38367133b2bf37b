"""One word of a command as the program would receive it, and what decoding words asks of its surroundings.

`Word.text` holds `HOLE` (NUL, which no accepted text holds) wherever the value is not known before the run.
`Word.glob` is set where the shell may replace the word by file names.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from tree_sitter import Node

HOLE: Final = "\0"
NUMBER: Final = HOLE + "\x01"
"""A hole that holds a plain number. No accepted text has these characters."""


class Word(NamedTuple):
    """One word. `fixed()` is its exact text or None; `text` may hold `HOLE`, or a pattern where `glob` is set.

    `split`: a hole in it may become several words, so any of them may be an option.
    """

    text: str
    glob: bool = False
    split: bool = False

    def fixed(self) -> str | None:
        return None if self.glob or HOLE in self.text else self.text

    @property
    def known(self) -> bool:
        return HOLE not in self.text

    @property
    def may_be_option(self) -> bool:
        """Whether an option may come out of a hole in it."""
        return HOLE in self.text and (self.split or (self.text[0] == HOLE and not self.text.startswith(NUMBER)))

    def part(self, text: str) -> "Word":
        """The same word cut to `text`: an option's glued value."""
        return self._replace(text=text)


UNKNOWN: Final = Word(HOLE, split=True)


class Scope(Protocol):
    """What decoding a word needs from its surroundings."""

    source: bytes
    is_bash: bool  # another shell expands no braces
    redefines: bool  # a function may stand for one of the programs that print numbers
    told: bool  # the substitution met last only shows what files of the workspace and git say

    def lookup(self, name: str) -> Word | None:
        """The value of a variable or positional parameter, where it is known."""

    def unset(self, name: str) -> bool:
        """Whether a variable holds nothing where it is read: neither the call nor the text sets it before."""

    def numeric(self, name: str) -> bool:
        """Whether a variable holds nothing but a plain number, or nothing, whenever it is read."""

    def array(self, name: str) -> Sequence[Word] | None:
        """The items of an array, where they are known."""

    def associative(self, name: str) -> bool:
        """Whether the name is that of an associative array, so that a subscript is a plain text."""

    def arguments(self) -> Sequence[Word] | None:
        """What `"$@"` stands for, where it is known."""

    def room(self, more: int) -> bool:
        """Whether words may be so many characters longer, all together, than what stands for them."""

    def nested(self, node: Node) -> None:
        """A command or process substitution was met."""

    def echoed(self, node: Node) -> str | None:
        """The one word that the substitution met last prints, where `echo` or `printf` prints it as it stands."""

    def doubt(self, reason: str) -> None:
        """Something could not be understood."""


TOLD: Final = HOLE + "\x02"
"""A hole that holds what a command prints that only shows what the workspace's files and git say."""
REF: Final = Word("ref" + HOLE)
"""A name that git prints: one word, and no option."""
FED: Final = Word(HOLE, glob=True, split=True)
"""The items that xargs takes from what is piped into it."""
FED_LINES: Final = Word(HOLE + "\n", glob=True)
"""The same, a line each."""
FED_LISTED: Final = Word(HOLE + HOLE, glob=True)
"""The same, ended by what an option says: known only where paths are listed, not where a text is."""
FEEDS: Final = frozenset({FED, FED_LINES, FED_LISTED})

"""The controls: our own code with one check taken out of it, by the daemon that is started from it.

Several faults lie in one daemon where the rows that need them don't meet: a daemon takes longer than the rows of it.
"""

from collections.abc import Mapping
from typing import Final

from opensafe.proof.mutants import Mutant

from .faults import FAULTS
from .shot import DENIED

_TOOLS: Final = "normalize/tools.py"
_PARSE: Final = 'parse, left = read_shell(command, sealed.get("cwd", DEFAULT_CWD), {**GUEST_ENV, **env}, before)'


def _reads(id: str, text: str, says: str) -> Mutant:  # noqa: A002 - the field's name
    """A Bash whose facts are those of another text than the one that runs."""
    return Mutant(id=id, file=_TOOLS, old=_PARSE, new=f"parse, left = read_shell({text})", says=says)


RAW: Final = _reads(
    "raw-text", f'command if "{DENIED}" in command else "true"', "the denied name is looked for in the raw text"
)
FIRST: Final = _reads(
    "first-word",
    f'command if command.split()[:1] == ["{DENIED}"] else "true"',
    "the text's first word alone is looked at",
)
LINES: Final = _reads(
    "no-newline", 'command.replace("\\r", " ").replace("\\n", " ")', "a line's end is no separator of commands"
)
ENV: Final = (
    Mutant(
        id="env-bash", file=_TOOLS, old='command, env = sealed["command"], sealed.get("env", {})',
        new='command, env = sealed["command"], {}', says="Bash's variables are not looked at",
    ),
    Mutant(
        id="env-exec", file=_TOOLS, old='argv, env = sealed["argv"], sealed.get("env", {})',
        new='argv, env = sealed["argv"], {}', says="Exec's variables are not looked at",
    ),
)  # fmt: skip
PATTERNS: Final = (
    Mutant(
        id="dot-without-newline", file="normalize/paths.py", old='part.split("*")), re.DOTALL)',
        new='part.split("*")))', says="a pattern's star stops at a newline",
    ),
    Mutant(
        id="floats-once", file="normalize/paths.py",
        old="            active.append(floating)\n            following: list[_Node] = []",
        new='            if path.count("/") < 4:\n                active.append(floating)\n'
        "            following: list[_Node] = []",
        says="`**` stands for two directories at most",
    ),
)  # fmt: skip

#: Daemons by name; "" is the one as shipped.
DAEMONS: Final[Mapping[str, tuple[Mutant, ...]]] = {
    "": (),
    "raw": (RAW,),
    "first": (FIRST,),
    "loose": (LINES, *ENV, *PATTERNS),
    **FAULTS,
}

"""Recording shims, leaf programs that log their argv and do nothing else, and what was predicted held against it."""

from collections.abc import Sequence

from opensafe.normalize.shell import ShellParse

SHIM = """#!/bin/bash
for argument in "${0##*/}" "$@"; do printf '%s\\0' "$argument"; done >> "$SHIM_LOG/$$"
"""


def matches(predicted: Sequence[str | None], executed: Sequence[str]) -> bool:
    """Whether `executed` is an instance of `predicted`, in which None stands for any number of words."""
    if not predicted:
        return not executed
    if predicted[0] is None:
        return any(matches(predicted[1:], executed[at:]) for at in range(len(executed) + 1))
    return bool(executed) and predicted[0] == executed[0] and matches(predicted[1:], executed[1:])


def covered(parse: ShellParse, executed: Sequence[str]) -> bool:
    commands = [(command.program, *command.argv[1:]) for command in parse.commands if command.argv]
    return any(matches(predicted, executed) for predicted in commands)

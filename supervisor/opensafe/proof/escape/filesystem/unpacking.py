"""`python -m … DIRECTORY…`: unpack `tar` in each into its `target` as the client does, in a process of its own.

Started from the package as it is, or from a copy of it that has a fault (mutants.py). Prints a line for each: why it
failed, or the reasons why something was left out.
"""

import sys

from opensafe.client.trees import unpack
from opensafe.errors import OpenSafeError


def main(*directories: str) -> None:
    """Unpack, and say what became of each."""
    for directory in directories:
        sys.stdout.write(f"{_unpacked(directory)}\n")


def _unpacked(directory: str) -> str:
    try:
        with open(f"{directory}/tar", "rb") as file:
            left = unpack(file, f"{directory}/target", with_auto_run=False)
    except OpenSafeError as error:
        return error.reason
    return ", ".join(item.reason for item in left.items) or "unpacked"


if __name__ == "__main__":
    main(*sys.argv[1:])

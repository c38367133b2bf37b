"""`python -m … ARCHIVE TARGET`: unpack a tree as the client does, in a process of its own.

Started from the package as it is, or from a copy of it that has a fault (mutants.py). Prints what was left out.
"""

import sys

from opensafe.client.trees import unpack
from opensafe.errors import OpenSafeError


def main(archive: str, target: str) -> None:
    """Unpack, and say what became of it."""
    try:
        with open(archive, "rb") as file:
            left = unpack(file, target, with_auto_run=False)
    except OpenSafeError as error:
        sys.stdout.write(f"{error.reason}\n")
        return
    for item in left.items:
        sys.stdout.write(f"left out, {item.reason}: {item.path.decode(errors='replace')}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

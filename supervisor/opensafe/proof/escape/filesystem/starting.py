"""`python -m … PATHS TEMPLATE FILE`: make a sandbox of an image and read a file in it, in a process of its own.

Started from the package as it is, or from a copy of it that has a fault (mutants.py). PATHS is config.Paths in JSON.
"""

import asyncio
import sys

import msgspec

from opensafe.config import Paths
from opensafe.errors import OpenSafeError
from opensafe.proof.escape.cell import Cells


async def main(paths: str, template: str, file: str) -> None:
    """Say what the guest sees, or why there is none."""
    async with Cells.open(msgspec.json.decode(paths, type=Paths)) as cells:
        try:
            async with cells.cell(template=template) as cell:
                seen = await cell.unfiltered(cell.launch("cat", file, cwd="/"))
                sys.stdout.write(f"started: {seen.text}\n")
        except OpenSafeError as error:
            sys.stdout.write(f"refused: {error}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""What the screen of proof works with: the reports, the campaigns that go on, and the run that people started."""

import pathlib
from typing import Self

from .campaigns import Campaigns
from .reports import Shelf
from .runs import Runner


class Proving:
    """Of one directory; None where there is none. As a context manager it ends the run that goes on."""

    def __init__(self, directory: pathlib.Path | None = None) -> None:
        self.directory = directory
        self.shelf = Shelf(directory)
        self.campaigns = Campaigns(directory)
        self.runner = Runner(directory)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runner.close()

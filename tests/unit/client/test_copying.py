"""One file copied out of a sandbox: as much of it as the caller says, whole or not at all."""

import pytest

from opensafe import errors
from opensafe.client import copying
from opensafe.client._files import Files

PIECES = (b"x" * 600, b"y" * 600)


class Sandbox(Files):
    """Its files are all the same."""

    def __init__(self):
        pass

    async def read(self, path, *, offset=0, length=0, call_id=""):
        for piece in PIECES:
            yield piece


async def test_RS_13_B50_no_more_of_a_file_is_taken_than_the_caller_says(tmp_path):
    with pytest.raises(errors.LimitExceeded, match="size_limit") as refused:
        await copying.fetch_file(Sandbox(), "f", str(tmp_path / "f"), with_auto_run=False, size_limit=599)
    assert "600 bytes or more" in str(refused.value)
    assert list(tmp_path.iterdir()) == []


async def test_RS_13_B50_as_much_of_a_file_as_the_caller_says_is_taken(tmp_path):
    copied = await copying.fetch_file(Sandbox(), "f", str(tmp_path / "f"), with_auto_run=False, size_limit=1200)
    assert copied.read == 1200
    assert (tmp_path / "f").read_bytes() == b"".join(PIECES)

"""Names in requests for sandboxes: whole, or not at all."""

import pytest

from opensafe._proto.v1 import sandbox_pb2
from opensafe.api.sandbox_messages import wanted
from opensafe.errors import InvalidArgument


@pytest.mark.parametrize("fields", [{"template": "base"}, {"network": "none"}, {"labels": {"team": "a b"}}])
def test_a_name_is_taken(fields):
    wanted(sandbox_pb2.CreateSandboxRequest(**fields))


@pytest.mark.parametrize(
    "fields", [{"template": "base\n"}, {"network": "none\n"}, {"labels": {"team\n": "a"}}, {"labels": {"team": "a\n"}}]
)
def test_CP18_a_line_that_goes_on_behind_a_name_is_not(fields):
    with pytest.raises(InvalidArgument):
        wanted(sandbox_pb2.CreateSandboxRequest(**fields))

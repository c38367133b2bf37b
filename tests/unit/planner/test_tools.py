"""What a model is offered is what the daemon takes."""

import jsonschema_rs
import msgspec
import pytest

from opensafe.normalize.tools import DEFAULT_REGISTRY as REGISTRY
from opensafe.planner import TOOLS

SAMPLES: dict[str, dict] = {
    "Bash": {"command": "ls", "cwd": "/workspace", "timeout_ms": 100},
    "Exec": {"argv": ["ls", "-l"], "cwd": "/workspace", "timeout_ms": 100},
    "Read": {"path": "a", "offset": 0, "length": 1},
    "Write": {"path": "a", "content": "b"},
    "List": {"path": "."},
    "Remove": {"path": "a", "recursive": True},
    "Move": {"path": "a", "to": "b", "replace": True},
    "Mkdir": {"path": "a", "parents": True},
}


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool["function"]["name"])
def test_a_call_by_the_offered_schema_is_one_of_the_daemons(tool):
    function = tool["function"]
    sample = SAMPLES[function["name"]]
    assert function["parameters"]["properties"].keys() == sample.keys()
    assert jsonschema_rs.Draft202012Validator(function["parameters"]).is_valid(sample)
    REGISTRY.validate("call-1", function["name"], msgspec.json.encode(sample), 1 << 20)

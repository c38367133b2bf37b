"""`opensafe policy digest`: what a site pins of a server's tools."""

import json

import pytest

from opensafe.cli.exits import Exit
from opensafe.client import description_digest

SCHEMA = {"type": "object", "properties": {"url": {"type": "string"}}}
TOOL = {"name": "lookup", "description": "Look it up.", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}


@pytest.mark.parametrize(
    "form", [TOOL, [TOOL], {"tools": [TOOL]}, {"jsonrpc": "2.0", "id": 1, "result": {"tools": [TOOL]}}]
)
async def test_each_tool_has_the_digest_that_clients_make(opensafe, tmp_path, form):
    (tmp_path / "tools.json").write_text(json.dumps(form))
    ended = await opensafe("policy", "digest", tmp_path / "tools.json")
    assert ended.stdout.decode() == f"{description_digest('Look it up.', SCHEMA)}  lookup\n"
    report = json.loads((await opensafe("policy", "digest", tmp_path / "tools.json", "--json")).stdout)
    assert report["details"] == {"lookup": description_digest("Look it up.", SCHEMA)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        '{"tools": 3}',
        '{"name": "x"}',
        '{"name": "x", "inputSchema": {"maximum": 0.5}}',
        '[{"name": 1, "inputSchema": {}}]',
    ],
)
async def test_what_has_none_is_refused_with_the_reason(opensafe, tmp_path, text):
    (tmp_path / "tools.json").write_text(text)
    ended = await opensafe("policy", "digest", tmp_path / "tools.json")
    assert (ended.status, ended.stdout) == (Exit.REQUEST, b"")
    assert ended.stderr

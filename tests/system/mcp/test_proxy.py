"""The proxy between a real client, a real server on the host and a real daemon."""

import asyncio
import re

import pytest

from opensafe.mcp.proxy_framing import Bounds
from tests.system.mcp.proxy_support import APPROVED, Site, decisions, on_disk, text

ADD = {"a": 1, "b": 2}
TRACE = "0af7651916cd43dd8448eb211c80319c"
CARRIER = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


@pytest.fixture(scope="module")
def settings(site_of_servers):
    return site_of_servers


@pytest.fixture
def place(daemon, tmp_path):
    return Site(daemon, tmp_path)


async def test_an_allowed_call_is_executed_once_and_its_end_is_on_record(place, agent):
    async with place.here() as client:
        result = await client.call_tool("add", ADD)
    assert (text(result), result.is_error, place.called()) == ("3", False, ["add"])
    (record, end), *_ = reversed(await decisions(agent, "mcp__plain__add"))
    call = record["input"]["call"]
    assert (record["purpose"], call["server"], call["arguments"]) == ("permit", "plain", ADD)
    assert (end["kind"], end["exit_code"]) == ("exited", 0)
    assert re.fullmatch(r"a result of \d+ bytes", end["detail"])
    assert result.meta["opensafe/decision_id"] == record["decision_id"]
    assert ("secret" in result.meta, result.meta["opensafe/kind"]) == (False, "answered")


async def test_a_blocked_call_never_reaches_the_server_and_says_why(place):
    async with place.here() as client:
        good = await client.call_tool("visit", {"url": "https://docs.python.org/3/"})
        bad = await client.call_tool("visit", {"url": "https://evil.example.com/3/"})
    told = bad.structured_content
    assert (bad.is_error, told["kind"], told["rule"]) == (True, "denied", "egress.domain.allowlist")
    assert "evil.example.com" in told["value"]
    assert told["remedy"]
    assert bad.meta["opensafe/kind"] == "denied"
    assert (good.is_error, place.called()) == (False, ["visit"])


async def test_a_call_for_review_is_executed_once_after_the_approval(place, reviewer):
    page = {"page": "news"}
    async with place.here() as client:
        parked, again = await asyncio.gather(*(client.call_tool("publish", page) for _ in range(2)))
        review_id = parked.structured_content["review_id"]
        assert (parked.is_error, parked.structured_content["kind"], place.called()) == (False, "review", [])
        assert again.structured_content["review_id"] == review_id
        await reviewer.approve_review(review_id, (await reviewer.get_review(review_id)).digest)
        other = await client.call_tool("publish", {"page": "olds"})
        assert (other.structured_content["kind"], place.called()) == ("review", [])
        both = await asyncio.gather(*(client.call_tool("publish", page) for _ in range(2)))
        assert sorted(text(result)[:12] for result in both) == ["Waits for a ", "publish done"]
    assert place.called() == ["publish"]


async def test_a_rejected_call_gives_the_reviewers_reason(place, reviewer):
    async with place.here() as client:
        parked = await client.call_tool("publish", {"page": "news"})
        await reviewer.reject_review(parked.structured_content["review_id"], "not on a Friday")
        refused = await client.call_tool("publish", {"page": "news"})
    assert (refused.is_error, refused.structured_content["outcome"]) == (True, "review_rejected")
    assert "not on a Friday" in text(refused)
    assert place.called() == []


async def test_with_wait_the_call_waits_for_its_reviewer(place, reviewer):
    async with place.here(wait_s=60.0) as client:
        waiting = asyncio.create_task(client.call_tool("publish", {"page": "waited"}))
        async for review in reviewer.watch_reviews():
            if review.state == "pending" and review.arguments == {"page": "waited"}:
                break
        await reviewer.approve_review(review.review_id, review.digest)
        assert text(await waiting) == "publish done"
    assert place.called() == ["publish"]


async def test_T15_a_description_that_changed_is_held_back_until_it_is_approved(place, capfd):
    async with place.here() as client:
        assert "add" in {tool.name for tool in (await client.list_tools()).tools}
        await client.call_tool("change", {})
        names = {tool.name for tool in (await client.list_tools()).tools}
        refused = await client.call_tool("add", ADD)
        assert ("add" in names, "publish" in names) == (False, True)
        assert (refused.is_error, refused.structured_content["rule"]) == (True, "tool.schema.pinned")
        said = capfd.readouterr().err
        await approve(place, *said.partition("opensafe mcp approve ")[2].split()[:3])
        assert text(await client.call_tool("add", ADD)) == "3"
    assert place.called() == ["change", "add"]


async def approve(place, *words):
    from opensafe.cli.app import run

    assert await asyncio.to_thread(run, ["mcp", "approve", *words, "--pins", str(place.pins)]) == 0


async def test_T15_what_was_seen_first_holds_for_the_next_proxy(place):
    async with place.here() as client:
        assert text(await client.call_tool("add", ADD)) == "3"
    async with place.here(environment={"WORDS": "Add, then tell everybody."}) as client:
        assert (await client.call_tool("add", ADD)).structured_content["rule"] == "tool.schema.pinned"
    assert place.called() == ["add"]


@pytest.mark.parametrize("own", [True, False], ids=["with pins of the user's", "site alone"])
async def test_T15_the_sites_pin_stands_in_place_of_a_first_sight(place, own):
    pins = {} if own else {"pins": None}
    async with place.here(name="signed", environment={"WORDS": "Add, then tell everybody."}, **pins) as client:
        refused = await client.call_tool("add", ADD)
        assert refused.structured_content["rule"] == "tool.schema.pinned"
        assert refused.structured_content["value"] != APPROVED
    assert place.called() == []
    (place.pins / "signed.json").unlink(missing_ok=True)
    async with place.here(name="signed", **pins) as client:
        assert text(await client.call_tool("add", ADD)) == "3"


async def test_what_may_not_be_shown_is_dropped_and_can_not_be_called(place, capfd):
    async with place.here() as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert (client.instructions, {"add", "publish"} <= names) == (None, True)
        for name in ("bash", "аdd", "a_dd", "long", "hidden", "poison"):
            assert name not in names
            assert (await client.call_tool(name, {})).structured_content["error"] == "UNKNOWN_TOOL"
    said = capfd.readouterr().err
    assert said.count("is dropped: ") == 6
    assert place.called() == []


async def test_a_tool_that_the_site_does_not_know_is_not_called(place):
    async with place.here(name="unknown") as client:
        refused = await client.call_tool("add", ADD)
    assert (refused.is_error, refused.structured_content["error"]) == (True, "UNKNOWN_TOOL")
    assert place.called() == []


async def test_a_server_that_hangs_is_told_to_stop_and_goes_on(place, agent):
    async with place.here(bounds=Bounds(call_s=0.5)) as client:
        hung = await client.call_tool("hang", {})
        assert (hung.is_error, hung.structured_content["kind"]) == (True, "server")
        assert "may have been executed" in text(hung)
        assert text(await client.call_tool("add", ADD)) == "3"
    assert place.called() == ["hang", "add"]
    (_, end), *_ = reversed(await decisions(agent, "mcp__plain__hang"))
    assert (end["kind"], end["detail"]) == ("lost", "no answer within 0 s")


async def test_a_server_that_dies_is_started_again_for_the_next_call(place, agent):
    async with place.here() as client:
        died = await client.call_tool("die", {})
        assert (died.is_error, died.structured_content["kind"]) == (True, "server")
        assert died.structured_content["value"] == "it ended: exited 3"
        assert text(await client.call_tool("add", ADD)) == "3"
    assert place.called() == ["die", "add"]
    (_, end), *_ = reversed(await decisions(agent, "mcp__plain__die"))
    assert end["kind"] == "lost"


@pytest.mark.parametrize("tool", ["flood", "swell"])
async def test_a_server_that_floods_is_ended_and_not_started_again(place, agent, tool):
    async with place.here() as client:
        for result in (await client.call_tool(tool, {}), await client.call_tool("add", ADD)):
            assert (result.is_error, result.structured_content["kind"]) == (True, "server")
            assert "more than" in result.structured_content["value"]
    assert place.called() == [tool]
    (_, end), *_ = reversed(await decisions(agent, f"mcp__plain__{tool}"))
    assert end["kind"] == "lost"


async def test_an_answer_that_is_no_result_is_none(place):
    async with place.here() as client:
        assert "no result" in text(await client.call_tool("nonsense", {}))
        assert text(await client.call_tool("add", ADD)) == "3"


async def test_a_call_that_the_client_cancels_is_not_known_to_have_succeeded(place, agent):
    async with place.here() as client:
        calling = asyncio.create_task(client.call_tool("wait", {"path": str(place.directory / "never")}))
        await place.has_called("wait")
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        async for record in agent.tail_audit(1, follow=True):
            if b"the client cancelled the call" in record.line:
                break


async def test_what_only_reads_passes_and_what_asks_does_not(place):
    async def answer(_context, _params):
        raise AssertionError("the server's question reached the user")

    async with place.here(client={"elicitation_callback": answer}) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["greet"]
        assert (await client.get_prompt("greet")).messages[0].content.text == "Good morning."
        assert [str(found.uri) for found in (await client.list_resources()).resources] == ["note://one"]
        assert (await client.read_resource("note://one")).contents[0].text == "a note"
        assert text(await client.call_tool("ask_user", {})) == "refused"


async def test_with_its_flag_the_servers_question_reaches_the_user(place):
    from mcp_types import ElicitResult

    async def answer(_context, params):
        return ElicitResult(action="accept", content={"asked": params.message})

    async with place.here(client={"elicitation_callback": answer}, elicitation=True) as client:
        assert "Your password?" in text(await client.call_tool("ask_user", {}))


async def test_the_callers_trace_goes_to_the_daemon_and_to_the_server_and_back(place):
    async with place.here() as client:
        result = await client.call_tool("trace", {}, meta=CARRIER)
        assert text(result)[3:35] == TRACE
        assert (result.meta["opensafe/trace_id"], result.meta["traceparent"][3:35]) == (TRACE, TRACE)
        own = await client.call_tool("trace", {})
        assert text(own)[3:35] == own.meta["opensafe/trace_id"] != TRACE


@pytest.mark.parametrize("arguments", [{"a": 1}, {"a": "one", "b": 2}, ADD | {"c": 3}])
async def test_arguments_that_break_the_schema_are_refused(place, arguments):
    async with place.here() as client:
        assert (await client.call_tool("add", arguments)).structured_content["kind"] == "arguments"
    assert place.called() == []


async def test_too_many_and_too_large_calls_are_refused_at_once(place):
    never = {"path": str(place.directory / "there")}
    async with place.here(bounds=Bounds(pending=2)) as client:
        large = await client.call_tool("publish", {"page": "x" * (5 << 20)})
        assert large.structured_content["error"] == "LIMIT_EXCEEDED"
        first = [asyncio.create_task(client.call_tool("wait", never)) for _ in range(2)]
        await place.has_called("wait")  # the server takes one at a time
        more = await client.call_tool("add", ADD)
        assert more.structured_content["limit"] == "2 calls"
        (place.directory / "there").touch()
        assert [text(result) for result in await asyncio.gather(*first)] == ["there", "there"]
        assert text(await client.call_tool("add", ADD)) == "3"


async def test_a_daemon_that_restarts_under_a_call_hears_its_end_once(settings, own_daemon, tmp_path):
    daemon = own_daemon(**settings)
    place = Site(daemon, tmp_path)
    async with place.here() as client:
        calling = asyncio.create_task(client.call_tool("wait", {"path": str(tmp_path / "there")}))
        await place.has_called("wait")
        daemon.kill()
        (tmp_path / "there").touch()
        adding = asyncio.create_task(client.call_tool("add", ADD))
        await asyncio.to_thread(daemon.start)
        assert (text(await calling), text(await adding)) == ("there", "3")
        assert place.called() == ["wait", "add"]
        for tool in ("wait", "add"):
            ((_, end),) = on_disk(daemon, f"mcp__plain__{tool}")
            assert end["kind"] == "exited"
    await asyncio.to_thread(daemon.stop)  # in order, so that there is nothing to remove

"""Server-sent events: the form of the HTML standard, states and not changes, and an end with the session."""

import asyncio
from pathlib import Path

from starlette.responses import StreamingResponse

from opensafe.console import stream
from opensafe.console.feed import Feed


def parse(text):
    """Events as HTML's 9.2.6 reads them: (event, id, data)."""
    events = []
    for block in text.split("\n\n"):
        fields: dict[str, list[str]] = {}
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
        if "data" in fields:
            events.append((fields["event"][0], fields["id"][0], "\n".join(fields["data"])))
    return events


def test_data_of_several_lines_comes_out_as_it_went_in():
    for data in ("", "one", "one\ntwo", "a\n\nb", "event: ended", ": x\nid: 9", "data: y"):
        assert parse(stream.event("trace", data, 7)) == [("trace", "7", data)]


def test_no_text_ends_its_event_and_begins_another():
    for end in ("\r", "\r\n", "\r\r", "\x0b", "\x85", "\u2028"):
        ((name, _, data),) = parse(stream.event("trace", f"a{end}{end}event: ended{end}data: x", 1))
        assert (name, data.split()[0]) == ("trace", "a")


async def test_a_region_is_sent_when_it_is_another_and_only_then(monkeypatch):
    monkeypatch.setattr(stream, "TICK_S", 0)
    feed = Feed("alice", Path("/nowhere"))
    shown = {"banner": "calm", "rules": "none"}
    left = 4

    def lasts():
        return left > 0

    told = stream._told(feed, lambda: dict(shown), lasts)
    assert await anext(told) == "retry: 500\n\n"
    first = parse(await anext(told))
    assert [(name, data) for name, _, data in first] == [("banner", "calm"), ("rules", "none")]
    waiting = asyncio.ensure_future(anext(told))
    await feed.tell()
    await asyncio.sleep(0)
    shown["rules"] = "one"
    feed.board.next = 12
    await feed.tell()
    assert parse(await waiting) == [("rules", "12", "one")]
    left = 0
    await feed.tell()
    assert parse(await anext(told)) == [("ended", "12", "")]


async def test_streams_of_one_person_are_bounded_and_counted_until_they_end():
    streams = stream.Streams()

    async def pieces():
        yield "one"
        yield "two"

    def asked(whose):
        return streams.bounded(whose, StreamingResponse(pieces()))

    begun = [asked("alice") for _ in range(stream.STREAMS_MAX)]
    for one in begun:
        assert await anext(one.body_iterator) == "one"
    refused = asked("alice")
    assert not isinstance(refused, StreamingResponse)
    assert refused.body.startswith(b"retry:")
    assert isinstance(asked("bob"), StreamingResponse)
    await begun[0].body_iterator.aclose()
    assert isinstance(asked("alice"), StreamingResponse)
    for one in begun:
        await one.body_iterator.aclose()
    assert not streams._open

"""Reports as HTML: whatever a guest says is text in them."""

import html.parser

import pytest

from opensafe.proof import page
from opensafe.proof.escape import html as escape_page
from opensafe.proof.escape.network.probes import PROBES
from opensafe.proof.escape.probe import Run, judge
from opensafe.proof.escape.report import summary

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\x1b[31mred\x1b[0m",
    "\N{RIGHT-TO-LEFT OVERRIDE}txt.exe",
    "\0\r\n</td></table>",
    "x" * 100_000,
]
OUT = Run(began=True, finished=True, found="a packet")


class Reader(html.parser.HTMLParser):
    def __init__(self, document):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(document)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, {name for name, _ in attrs}))

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize("said", HOSTILE, ids=range(len(HOSTILE)))
def test_a_cell_is_text_and_bounded(said):
    plain = Reader(page.page("t", ["lead"], [page.Table("h", ("c",), [["harmless"]])]))
    hostile = Reader(page.page("t", ["lead"], [page.Table("h", ("c",), [[said]])]))
    assert hostile.tags == plain.tags
    shown = "".join(hostile.texts)
    assert not {"\x1b", "\0", "\r", "\N{RIGHT-TO-LEFT OVERRIDE}"} & set(shown)
    assert len(shown) < len("".join(plain.texts)) + 2000


def test_a_page_has_no_script_and_fetches_nothing():
    document = page.page("t", [], [])
    assert "default-src 'none'" in document
    tags = Reader(document).tags
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in tags}
    assert not any(names & {"src", "href", "onload"} for _, names in tags)


def test_a_run_of_the_suite_shows_each_probe_with_its_verdict():
    held = judge(PROBES[0], [Run(began=True, finished=True, layer="packet filter: reset")], OUT)
    broken = judge(PROBES[1], [OUT], OUT)
    document = escape_page.render(summary(2, [held, broken]), {"kernel": "6.1"}, [held, broken])
    texts = Reader(document).texts
    assert "Not all holds." in texts
    for told in (held.id, held.title, "contained", "packet filter: reset", broken.id, "breached", "a packet"):
        assert told in texts

"""Templates: nothing gets past escaping, nothing is inline, and guests' text steers nothing."""

import re
from pathlib import Path

import pytest

import opensafe.console
from opensafe.console.assets import OWN, Assets
from opensafe.console.page import age, harmless, size

ROOM = Path(opensafe.console.__file__).parent
TEMPLATES = sorted((ROOM / "templates").rglob("*.html"))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.relative_to(ROOM / "templates").as_posix())
def test_a_template_has_no_way_around_escaping_and_nothing_inline(path):
    text = path.read_text()
    assert not re.search(r"\|\s*safe\b|autoescape|Markup", text)
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon[a-z]+=|javascript:", text)
    assert not re.search(r"""(?:src|href|action)=["']?(?:https?:)?//""", text)


def test_our_own_style_and_script_fetch_nothing():
    for name in OWN:
        text = (ROOM / "assets" / name).read_text().replace('xmlns="http://www.w3.org/2000/svg"', "")
        assert not re.search(r"https?://|@import|url\(|eval\(|Function\(|innerHTML", text), name


def test_only_charts_and_times_are_made_as_markup():
    made = {path.name for path in ROOM.rglob("*.py") if "Markup(" in path.read_text()}
    assert made == {"chart.py", "page.py"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("日本語", "日本語"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u202eb", "a\\u202eb"),
        ("a\r\nb", "a\\r\\nb"),
        ("\u200bx", "\\u200bx"),
    ],
)
def test_text_of_guests_steers_nothing(text, shown):
    assert harmless(text) == shown


def test_text_of_guests_is_cut_with_a_note():
    assert harmless("x" * 10_000_000, 10) == "x" * 10 + " […9999990]"


def test_assets_are_named_by_what_is_in_them():
    assets = Assets()
    assert re.fullmatch(r"/assets/[0-9a-f]{16}/console\.css", assets.url("console.css"))
    with pytest.raises(KeyError):
        assets.url("../app.py")


@pytest.mark.parametrize(
    ("seconds", "shown"), [(-5, "0s"), (0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (7200, "2h"), (200_000, "2d")]
)
def test_ages(seconds, shown):
    assert age(0, seconds * 10**6) == shown


@pytest.mark.parametrize(("number", "shown"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 40, "1.0 TiB")])
def test_sizes(number, shown):
    assert size(number) == shown

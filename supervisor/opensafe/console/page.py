"""Pages from templates: what every template may use, and the one way in which a guest's text gets onto a page.

Escaping is always on, undefined names are errors, and `harmless` makes what would steer a terminal or reorder letters
visible. A test holds that no template marks anything as safe.
"""

import pathlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import jinja2
import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from opensafe.model import printable

from . import chart
from .assets import Assets
from .signing_in import Person
from .words import LANGUAGES, Words, words

_TEMPLATES: Final = pathlib.Path(__file__).with_name("templates")
#: Characters of a text that a page shows of its own accord.
SHOWN_MAX: Final = 2000
#: Of a record or of arguments, where all is asked for; the download of a record has the rest.
RECORD_MAX: Final = 128 * 1024
#: The screens, in the order of the navigation, each with the key that follows `g`.
SCREENS: Final = {
    "live": ("/", "l"),
    "session": ("/sessions", "s"),
    "reviews": ("/reviews", "r"),
    "policies": ("/policies", "p"),
    "proof": ("/proof", "t"),
    "compare": ("/compare", "c"),
    "audit": ("/audit", "a"),
}


class Pages:
    """Draws templates."""

    def __init__(self, assets: Assets) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(_TEMPLATES),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "harmless": harmless,
            "age": age,
            "moment": moment,
            "day": day,
            "percent": percent,
            "ms": lambda nanoseconds: f"{nanoseconds / 1e6:.1f}",
            "size": size,
        }
        self._environment.globals |= {
            "asset": assets.url,
            "sparkline": chart.sparkline,
            "bar": chart.bar,
            "trend": chart.trend,
            "screens": SCREENS,
            "languages": LANGUAGES,
        }

    def draw(self, template: str, language: str, values: Mapping[str, Any]) -> str:
        """One template's text, in a language."""
        said: Words = words(language)
        return self._environment.get_template(template).render(
            **values, t=said, lang=language, now_us=time.time_ns() // 1000
        )

    def answer(self, request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401 - what the template wants
        """A whole page for whoever asks, or (to htmx) a part of one."""
        person: Person | None = getattr(request.state, "person", None)
        values |= {"person": person, "path": request.url.path}
        return HTMLResponse(self.draw(template, request.state.language, values), status)


def harmless(text: object, length: int = SHOWN_MAX) -> str:
    """A text of agents, guests or the daemon: cut, with a note, and nothing in it but characters that show."""
    whole = str(text)
    more = f" […{len(whole) - length}]" if len(whole) > length else ""
    return printable.harmless(whole[:length]) + more


def pretty(data: bytes) -> str:
    """JSON for people: cut at RECORD_MAX, nothing in it but characters that show; indented if no longer."""
    try:
        text = (msgspec.json.format(data, indent=2) if len(data) <= RECORD_MAX else data).decode()
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        text = data.decode(errors="replace")
    more = f"\n[…{len(text) - RECORD_MAX}]" if len(text) > RECORD_MAX else ""
    return "\n".join(map(printable.harmless, text[:RECORD_MAX].split("\n"))) + more


def age(since_us: int, now_us: int) -> str:
    """How long ago: 7s, 12m, 3h, 4d."""
    seconds = max(0, now_us - since_us) // 10**6
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def moment(time_us: int) -> Markup:
    """A time of day, with the whole of it for machines."""
    when = datetime.fromtimestamp(time_us / 1e6, UTC)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        when.isoformat(), when.isoformat(sep=" ", timespec="milliseconds"), when.strftime("%H:%M:%S")
    )


def day(time_us: int) -> Markup:
    """A date and a time of day, with the whole of it for machines."""
    when = datetime.fromtimestamp(time_us / 1e6, UTC)
    return Markup('<time datetime="{}">{}</time>').format(when.isoformat(), when.strftime("%Y-%m-%d %H:%M:%S"))


def percent(share: float, digits: int = 2) -> str:
    """A share of a whole: 99.5 %, and 100 % only for all of it."""
    text = f"{share * 100:.{digits}f}"
    if text == f"{100:.{digits}f}" and share < 1:
        text = f"{100 - 10**-digits:.{digits}f}"
    return f"{text}\N{NO-BREAK SPACE}%"


def size(number: int) -> str:
    """Bytes in units of 1024."""
    value = float(number)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"

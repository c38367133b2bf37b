"""Charts as SVG: drawn on the server, named for those who hear them, without style attributes (the CSP bars them)."""

from collections.abc import Sequence

from markupsafe import Markup

_WIDTH, _HEIGHT = 120, 24


def sparkline(values: Sequence[int], label: str) -> Markup:
    """Counts over time, oldest first, as a line over its area; the highest touches the top."""
    top = max(values, default=0) or 1
    step = _WIDTH / max(len(values) - 1, 1)
    points = " ".join(
        f"{number * step:.1f},{_HEIGHT - 1 - value / top * (_HEIGHT - 3):.1f}" for number, value in enumerate(values)
    )
    area = f"0,{_HEIGHT} {points} {_WIDTH},{_HEIGHT}"
    return Markup(
        '<svg class="sparkline" viewBox="0 0 {} {}" role="img" aria-label="{}" preserveAspectRatio="none">'
        '<polygon points="{}"/><polyline points="{}"/></svg>'
    ).format(_WIDTH, _HEIGHT, label, area, points)


def bar(share: float, label: str, tone: str = "") -> Markup:
    """A share of a whole, 0 to 1."""
    width = max(0.0, min(1.0, share)) * 100
    return Markup(
        '<svg class="bar {}" viewBox="0 0 100 8" role="img" aria-label="{}" preserveAspectRatio="none">'
        '<rect class="whole" width="100" height="8"/><rect class="part" width="{}" height="8"/></svg>'
    ).format(tone, label, f"{width:.2f}")

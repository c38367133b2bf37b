"""Charts as SVG: drawn on the server, named for those who hear them, without style attributes (the CSP bars them)."""

from collections.abc import Sequence

from markupsafe import Markup

_WIDTH, _HEIGHT = 120, 24
_TREND = (360, 84)


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


def trend(values: Sequence[float], low: float, high: float, label: str, goal: float | None = None) -> Markup:
    """A rate over time, oldest first, on a scale from `low` to `high`; goal: a line across."""
    room = (high - low) or 1.0

    def y(value: float) -> float:
        return _TREND[1] - 6 - (value - low) / room * (_TREND[1] - 12)

    step = (_TREND[0] - 12) / max(len(values) - 1, 1)
    points = [(6 + number * step, y(value)) for number, value in enumerate(values)]
    line = Markup('<polyline points="{}"/>').format(" ".join(f"{x:.1f},{at:.1f}" for x, at in points))
    dots = Markup("").join(
        Markup('<circle cx="{}" cy="{}" r="2.5"/>').format(f"{x:.1f}", f"{at:.1f}") for x, at in points
    )
    across = Markup("")
    if goal is not None:
        across = Markup('<line class="goal" x1="0" x2="{}" y1="{}" y2="{}"/>').format(
            _TREND[0], f"{y(goal):.1f}", f"{y(goal):.1f}"
        )
    return Markup('<svg class="trend" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}</svg>').format(
        *_TREND, label, across, line, dots
    )

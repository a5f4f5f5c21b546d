"""Draws the loss of a run as a small SVG for notebooks: a line for each split, legible on light and dark pages.

svg_of(loss_of("out/model_run"))
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Sequence

from .series import EPOCH, Curve, Metric, read_metrics

_WIDTH, _HEIGHT = 340, 140  # pixels
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 330, 24, 116  # of the plot
_COLOURS = ("#3b7ddd", "#d9660d", "#2a9d74", "#a05cc0")  # contrast of 3:1 or more on white and on black
_TEXT = 'font-family="sans-serif" font-size="11" fill="currentColor"'
_AXIS = 'fill="none" stroke="currentColor" stroke-opacity="0.35"'


def loss_of(folder: str) -> Metric | None:
    """Returns the loss that was logged below a model run, or a scalar with loss in its name; None without a curve."""
    metrics = [one for one in read_metrics(folder) if "loss" in one.name and _curves(one)]
    return min(metrics, key=lambda one: (one.name != "loss", one.axis != EPOCH), default=None)


def svg_of(metric: Metric) -> str:
    """Returns a metric's drawing as an SVG element, without scripts, styles and ids."""
    curves = _curves(metric)
    points = [point for curve in curves.values() for point in _points(curve)]
    steps, values = [step for step, _ in points], [value for _, value in points]
    first, last, low, high = min(steps), max(steps), min(values), max(values)
    to_x, to_y = _scale(first, last, _LEFT, _RIGHT), _scale(low, high, _BOTTOM, _TOP)
    title = html.escape(f"{metric.name} by {metric.axis}")
    lines = [
        f'<svg role="img" aria-label="{title}" width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}">',
        f"<title>{title}</title>",
        f'<path d="M{_LEFT},{_TOP} V{_BOTTOM} H{_RIGHT}" {_AXIS}/>',
        _text(_LEFT - 6, _TOP + 4, f"{high:.3g}", "end"),
        _text(_LEFT - 6, _BOTTOM + 4, f"{low:.3g}", "end"),
        _text(_RIGHT, 14, metric.name, "end"),
        _text(_LEFT, _BOTTOM + 16, f"{first:,}", "start"),
        _text(_RIGHT, _BOTTOM + 16, f"{metric.axis} {last:,}", "end"),
    ]
    for number, (name, curve) in enumerate(curves.items()):
        path = " ".join(_segments([(to_x(x), None if y is None else to_y(y)) for x, y in _pairs(curve)]))
        lines += [_line(path, number), *_legend(name, number)]
    return "\n".join([*lines, "</svg>"])


def _curves(metric: Metric) -> dict[str, Curve]:
    """Returns the splits with two finite values or more, at most one for each color."""
    curves = {name: curve for name, curve in metric.splits.items() if len(_points(curve)) > 1}
    return dict(list(curves.items())[: len(_COLOURS)])


def _pairs(curve: Curve) -> Iterator[tuple[int, float | None]]:
    return zip(curve.steps, curve.values, strict=True)


def _points(curve: Curve) -> list[tuple[int, float]]:
    return [(step, value) for step, value in _pairs(curve) if value is not None]


def _scale(low: float, high: float, begin: float, end: float) -> Callable[[float], float]:
    """Returns the function from values to pixels; a constant is in the middle."""
    if low == high:
        return lambda value: (begin + end) / 2
    return lambda value: begin + (end - begin) * (value - low) / (high - low)


def _segments(points: Sequence[tuple[float, float | None]]) -> Iterator[str]:
    """Yields SVG path commands; the line is interrupted at missing values."""
    command = "M"
    for x, y in points:
        if y is not None:
            yield f"{command}{x:.1f},{y:.1f}"
        command = "M" if y is None else "L"


def _line(path: str, number: int) -> str:
    dashes = ' stroke-dasharray="5 3"' if number else ""
    return f'<path d="{path}" fill="none" stroke="{_COLOURS[number]}" stroke-width="2"{dashes}/>'


def _legend(name: str, number: int) -> Iterator[str]:
    x = _LEFT + 70 * number
    yield _line(f"M{x},10 H{x + 22}", number)
    yield _text(x + 28, 14, name, "start")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {_TEXT}>{html.escape(text)}</text>'

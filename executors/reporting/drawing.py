"""Coordinates of small SVG drawings: histograms in tables, and graphs of boxes and arrows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from .document import Graph

BARS_WIDTH, BARS_HEIGHT = 120, 28
BOX_WIDTH, BOX_GAP, ROW_GAP = 176, 16, 34
_LINE_HEIGHT, _BOX_PADDING = 17, 7


@dataclasses.dataclass(frozen=True)
class Rectangle:
    """A rectangle in pixels; the origin is the upper left corner."""

    x: float
    y: float
    width: float
    height: float


def bars_of(splits: Mapping[str, Sequence[float]]) -> Iterator[tuple[int, Rectangle]]:
    """Yields (index of the split, rectangle) for the bars of a histogram; all splits have the same scale."""
    highest = max((value for values in splits.values() for value in values), default=0.0)
    for number, values in enumerate(splits.values()):
        slot = BARS_WIDTH / max(1, len(values))
        width = slot / len(splits) * 0.86
        for index, value in enumerate(values):
            height = BARS_HEIGHT * value / highest if highest else 0.0
            if height:
                x = index * slot + number * slot / len(splits)
                yield number, Rectangle(round(x, 1), round(BARS_HEIGHT - height, 1), round(width, 1), round(height, 1))


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layout of a graph: the boxes' rectangles, and the total size."""

    boxes: Sequence[Rectangle]
    width: float
    height: float


def layout_of(graph: Graph) -> Layout:
    """Lays out a graph: the nodes of each row side by side and centered, the rows below each other."""
    heights = [_LINE_HEIGHT * (1 + len(node.lines)) + 2 * _BOX_PADDING for node in graph.nodes]
    rows: dict[int, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        rows.setdefault(node.row, []).append(number)
    whole = max(map(len, rows.values())) * (BOX_WIDTH + BOX_GAP) - BOX_GAP
    boxes: dict[int, Rectangle] = {}
    y = 1.0
    for row in sorted(rows):
        x = (whole - len(rows[row]) * (BOX_WIDTH + BOX_GAP) + BOX_GAP) / 2 + 1
        for number in rows[row]:
            boxes[number] = Rectangle(x, y, BOX_WIDTH, heights[number])
            x += BOX_WIDTH + BOX_GAP
        y += max(heights[number] for number in rows[row]) + ROW_GAP
    return Layout([boxes[number] for number in range(len(graph.nodes))], whole + 2, y - ROW_GAP + 1)


def arrows_of(graph: Graph, layout: Layout) -> Iterator[str]:
    """Yields the SVG path of each arrow, from the bottom of one box to the top of another."""
    for begin, end in graph.edges:
        a, b = layout.boxes[begin], layout.boxes[end]
        x1, y1, x2, y2 = a.x + a.width / 2, a.y + a.height, b.x + b.width / 2, b.y - 3
        bend = max(16.0, (y2 - y1) / 2)
        yield f"M{x1:.0f},{y1:.0f} C{x1:.0f},{y1 + bend:.0f} {x2:.0f},{y2 - bend:.0f} {x2:.0f},{y2:.0f}"

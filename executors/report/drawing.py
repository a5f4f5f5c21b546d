"""Where the lines of small drawings go: histograms in tables, and graphs of boxes and arrows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from .document import Graph

BARS_WIDTH, BARS_HEIGHT = 120, 28
BOX_WIDTH, BOX_GAP, COLUMN_GAP = 190, 14, 56
_LINE_HEIGHT, _BOX_PADDING = 17, 9
TEXT_CHARACTERS = 25  # as fit into a box


@dataclasses.dataclass(frozen=True)
class Rectangle:
    """A rectangle in pixels, from the left upper corner."""

    x: float
    y: float
    width: float
    height: float


def bars_of(splits: Mapping[str, Sequence[float]]) -> Iterator[tuple[int, Rectangle]]:
    """Yields (number of the split, rectangle) of the bars of a histogram; all splits have the same scale."""
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
class Placed:
    """A graph's boxes in their places, and the size of the whole."""

    boxes: Sequence[Rectangle]
    width: float
    height: float


def place(graph: Graph) -> Placed:
    """Puts each node into its column, columns in the middle beside each other."""
    heights = [_LINE_HEIGHT * (1 + len(node.lines)) + 2 * _BOX_PADDING for node in graph.nodes]
    columns: dict[int, list[int]] = {}
    for number, node in enumerate(graph.nodes):
        columns.setdefault(node.column, []).append(number)
    tall = {column: sum(heights[n] + BOX_GAP for n in numbers) - BOX_GAP for column, numbers in columns.items()}
    whole = max(tall.values())
    boxes: dict[int, Rectangle] = {}
    for left, column in enumerate(sorted(columns)):
        y = (whole - tall[column]) / 2
        for number in columns[column]:
            boxes[number] = Rectangle(left * (BOX_WIDTH + COLUMN_GAP) + 1, y + 1, BOX_WIDTH, heights[number])
            y += heights[number] + BOX_GAP
    width = len(columns) * (BOX_WIDTH + COLUMN_GAP) - COLUMN_GAP
    return Placed([boxes[number] for number in range(len(graph.nodes))], width + 2, whole + 2)


def arrows_of(graph: Graph, placed: Placed) -> Iterator[str]:
    """Yields the SVG path of each arrow, from the right side of a box to the left side of another."""
    for begin, end in graph.edges:
        a, b = placed.boxes[begin], placed.boxes[end]
        x1, y1, x2, y2 = a.x + a.width, a.y + a.height / 2, b.x - 4, b.y + b.height / 2
        bend = max(24.0, (x2 - x1) / 2)
        yield f"M{x1:.0f},{y1:.0f} C{x1 + bend:.0f},{y1:.0f} {x2 - bend:.0f},{y2:.0f} {x2:.0f},{y2:.0f}"

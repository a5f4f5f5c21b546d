"""The document model of a report: sections with tables, charts, facts and texts.

Code that reports something returns a `Section`; only `page.py` defines the presentation. Empty parts are omitted.

    Section("metrics", "Evaluation metrics", (Table("Metrics", ("metric", "value"), (("auc", 0.94),)),))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

GOOD, BAD, WARN = "good", "bad", "warn"  # tones
_NARROW = 64  # maximum width of a narrow table in characters


@dataclasses.dataclass(frozen=True)
class Cell:
    """A value with its own formatting.

    Attributes:
      text: Displayed text.
      is_number: Whether it is right-aligned, like numbers.
      tone: GOOD, BAD, WARN, or "".
      share: Length of a bar behind the text, from 0 to 1; None for no bar.
      is_code: Whether it is a path, a name or a value to copy.
    """

    text: str
    is_number: bool = False
    tone: str = ""
    share: float | None = None
    is_code: bool = False


@dataclasses.dataclass(frozen=True)
class Histogram:
    """A small histogram of a distribution: a list of shares for each split, all of the same length."""

    splits: Mapping[str, Sequence[float]]
    description: str = ""


Value: TypeAlias = "str | int | float | bool | Cell | Histogram | None"
Rows: TypeAlias = "Sequence[Sequence[Value]]"


@dataclasses.dataclass(frozen=True)
class Facts:
    """Names and values as a list; with `tiles`, as large tiles side by side."""

    rows: Sequence[tuple[str, Value]]
    tiles: bool = False

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table with a caption; with `folded`, it is initially collapsed."""

    caption: str
    columns: Sequence[str]
    rows: Rows
    folded: bool = False

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def is_narrow(self) -> bool:
        """Whether the table fits into half of the page's width."""
        return max(sum(_width(value) for value in row) for row in (*self.rows, self.columns)) <= _NARROW


@dataclasses.dataclass(frozen=True)
class Chart:
    """A line chart over numbers, or points with intervals over names.

    Attributes:
      title: Title of the chart.
      x_label: Label of the x axis, such as "epoch", "step", "seconds", or a slice.
      x: Values of the x axis: ascending numbers, or names.
      series: {name: a value for each x}; None for missing values.
      unit: Unit of the values, "" for none.
      intervals: {name: (low, high) for each x}; only if `x` are names.
      dashed: Names of series that are drawn as dashed lines.
      mark: Marked position on the x axis; None for no mark.
      mark_label: Text at the mark; by default the mark is the position of the published weights.
      colours: {name: index of the color}; related series, such as those of one run, share a color. By default each
        series has its own.
    """

    title: str
    x_label: str
    x: Sequence[float] | Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    unit: str = ""
    intervals: Mapping[str, Sequence[tuple[float, float] | None]] = dataclasses.field(default_factory=dict)
    dashed: Sequence[str] = ()
    mark: float | None = None
    mark_label: str = ""
    colours: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.x) and bool(self.series)

    @property
    def is_categorical(self) -> bool:
        """Whether `x` are names instead of numbers."""
        return isinstance(self.x[0], str)

    @property
    def may_be_logarithmic(self) -> bool:
        """Whether a logarithmic axis is possible and useful: values are positive and span more than a factor of 10."""
        values = [value for values in self.series.values() for value in values if value is not None]
        return not self.is_categorical and bool(values) and min(values) > 0 and max(values) > 10 * min(values)

    @property
    def description(self) -> str:
        """Description of the chart as text, for accessibility."""
        descriptions = [f"{name}: {_course(self, values)}" for name, values in self.series.items()]
        return f"{self.title} by {self.x_label}. {'; '.join(descriptions)}.{self._mark_description}"

    @property
    def _mark_description(self) -> str:
        if self.mark is None:
            return ""
        at = f"{self.x_label} {_at(self.mark)}"
        return (
            f" Marked at {at}: {self.mark_label}." if self.mark_label else f" The published weights are those of {at}."
        )


def _course(chart: Chart, values: Sequence[float | None]) -> str:
    points = [(x, value) for x, value in zip(chart.x, values, strict=True) if value is not None]
    if not points:
        return "no values"
    unit = f" {chart.unit}" if chart.unit else ""
    low, high = min(points, key=lambda point: point[1]), max(points, key=lambda point: point[1])
    extremes = f"lowest {low[1]:.4g}{unit} at {_at(low[0])}, highest {high[1]:.4g}{unit} at {_at(high[0])}"
    if chart.is_categorical:
        return extremes
    return f"from {points[0][1]:.4g} to {points[-1][1]:.4g}{unit}, {extremes}"


def _at(x: object) -> str:
    return f"{x:,.6g}" if isinstance(x, (int, float)) else str(x)


@dataclasses.dataclass(frozen=True)
class Code:
    """Preformatted text: source code, a traceback, or a diff."""

    title: str
    text: str
    folded: bool = True
    is_diff: bool = False

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclasses.dataclass(frozen=True)
class Note:
    """A sentence; with a tone it is highlighted."""

    text: str
    tone: str = ""

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclasses.dataclass(frozen=True)
class Node:
    """A box of a graph.

    Attributes:
      name: Text of the box.
      lines: Further lines in smaller type.
      kind: "artifact" or "step".
      row: Index of the row, from 0 at the top.
    """

    name: str
    lines: Sequence[str] = ()
    kind: str = "artifact"
    row: int = 0


@dataclasses.dataclass(frozen=True)
class Graph:
    """Boxes and arrows; edges are pairs of node indices."""

    title: str
    nodes: Sequence[Node]
    edges: Sequence[tuple[int, int]]

    def __bool__(self) -> bool:
        return bool(self.nodes)


def _width(value: Value) -> int:
    return 20 if isinstance(value, Histogram) else len(as_cell(value).text) + 2


Block: TypeAlias = "Facts | Table | Chart | Code | Note | Graph"


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page with a heading.

    Attributes:
      id: Anchor of the section, unique on the page.
      title: Heading.
      blocks: Content. Empty blocks are omitted, and so are sections with only empty blocks.
    """

    id: str
    title: str
    blocks: Sequence[Block]

    def __bool__(self) -> bool:
        return any(self.blocks)


@dataclasses.dataclass(frozen=True)
class Report:
    """A report page.

    Attributes:
      title: Title of the page.
      status: "succeeded", "failed", "interrupted", "running", or "" for a comparison.
      facts: Names and values below the title.
      sections: Sections in reading order.
    """

    title: str
    status: str
    facts: Sequence[tuple[str, Value]]
    sections: Sequence[Section]


def as_cell(value: object) -> Cell:
    """Returns a record's value as a formatted cell."""
    if isinstance(value, Cell):
        return value
    if value is None or value == "":
        return Cell("\u2013")
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, int):
        return Cell(f"{value:,}", is_number=True)
    if isinstance(value, float):
        return Cell(f"{value:,.5g}" if abs(value) < 1e5 else f"{value:,.0f}", is_number=True)
    return Cell(str(value))

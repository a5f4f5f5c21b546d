"""What a report is made of: sections of tables, charts, facts and texts, whatever they are about.

Who has something to report returns a `Section`; `page.py` alone knows how it looks. Parts without content are left out.

    Section("metrics", "Evaluation metrics", (Table("Metrics", ("metric", "value"), (("auc", 0.94),)),))
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeAlias

GOOD, BAD, WARN = "good", "bad", "warn"  # tones
_NARROW = 64  # characters


@dataclasses.dataclass(frozen=True)
class Cell:
    """A value that is shown in a way of its own.

    Attributes:
      text: What is shown.
      is_number: Whether it is set as numbers are, to the right.
      tone: GOOD, BAD, WARN, or "".
      share: From 0 to 1: drawn as a bar behind the text.
      is_code: Whether it is a path, a name or a value to copy.
    """

    text: str
    is_number: bool = False
    tone: str = ""
    share: float | None = None
    is_code: bool = False


@dataclasses.dataclass(frozen=True)
class Histogram:
    """A small drawing of how values are distributed, a list of as many shares for each split."""

    splits: Mapping[str, Sequence[float]]
    description: str = ""


Value: TypeAlias = "str | int | float | bool | Cell | Histogram | None"
Rows: TypeAlias = "Sequence[Sequence[Value]]"


@dataclasses.dataclass(frozen=True)
class Facts:
    """Names and values, one below the other; `tiles` shows them side by side and large."""

    rows: Sequence[tuple[str, Value]]
    tiles: bool = False

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table with a caption; `folded` ones are opened by who wants them."""

    caption: str
    columns: Sequence[str]
    rows: Rows
    folded: bool = False

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def is_narrow(self) -> bool:
        """Whether half of the page's width is enough for it."""
        return max(sum(_width(value) for value in row) for row in (*self.rows, self.columns)) <= _NARROW


@dataclasses.dataclass(frozen=True)
class Chart:
    """Lines over a number, or points with intervals over names.

    Attributes:
      title: What is drawn.
      x_label: What the first column is: "epoch", "step", "seconds", a slice.
      x: Its values: ascending numbers, or names.
      series: {name: a value for each x}, None where there is none.
      unit: Of the values, "" for none.
      intervals: {name: (low, high) for each x}; only where `x` are names.
      dashed: Series that are drawn dashed.
      mark: Where on `x` the published weights are; None where that is not known, or nothing was published.
      colours: {name: number of its colour}; series that are related, such as a run's, have the same. By default each
        has its own.
    """

    title: str
    x_label: str
    x: Sequence[float] | Sequence[str]
    series: Mapping[str, Sequence[float | None]]
    unit: str = ""
    intervals: Mapping[str, Sequence[tuple[float, float] | None]] = dataclasses.field(default_factory=dict)
    dashed: Sequence[str] = ()
    mark: float | None = None
    colours: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.x) and bool(self.series)

    @property
    def is_categorical(self) -> bool:
        """Whether `x` are names."""
        return isinstance(self.x[0], str)

    @property
    def may_be_logarithmic(self) -> bool:
        """Whether a logarithmic axis shows all values, and shows more than a linear one."""
        values = [value for values in self.series.values() for value in values if value is not None]
        return not self.is_categorical and bool(values) and min(values) > 0 and max(values) > 10 * min(values)

    @property
    def description(self) -> str:
        """What is to be seen, in words, for who cannot see it."""
        said = [f"{name}: {_course(self, values)}" for name, values in self.series.items()]
        marked = "" if self.mark is None else f" The published weights are those of {self.x_label} {_at(self.mark)}."
        return f"{self.title} by {self.x_label}. {'; '.join(said)}.{marked}"


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
    """A text to be read as it is: source, a traceback, a difference."""

    title: str
    text: str
    folded: bool = True
    is_diff: bool = False

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclasses.dataclass(frozen=True)
class Note:
    """A sentence; with a tone it is set apart."""

    text: str
    tone: str = ""

    def __bool__(self) -> bool:
        return bool(self.text)


@dataclasses.dataclass(frozen=True)
class Node:
    """A box of a graph.

    Attributes:
      name: Its text; lines below are smaller.
      lines: Further lines.
      kind: "artifact" or "step".
      row: How far down it stands, from 0.
    """

    name: str
    lines: Sequence[str] = ()
    kind: str = "artifact"
    row: int = 0


@dataclasses.dataclass(frozen=True)
class Graph:
    """Boxes and arrows between them, by the boxes' numbers."""

    title: str
    nodes: Sequence[Node]
    edges: Sequence[tuple[int, int]]

    def __bool__(self) -> bool:
        return bool(self.nodes)


def _width(value: Value) -> int:
    return 20 if isinstance(value, Histogram) else len(shown(value).text) + 2


Block: TypeAlias = "Facts | Table | Chart | Code | Note | Graph"


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page with a heading.

    Attributes:
      id: The end of its address, unique on the page.
      title: The heading.
      blocks: What is in it; empty blocks are left out, and a section without any.
    """

    id: str
    title: str
    blocks: Sequence[Block]

    def __bool__(self) -> bool:
        return any(self.blocks)


@dataclasses.dataclass(frozen=True)
class Report:
    """A page.

    Attributes:
      title: What it is about.
      status: "succeeded", "failed", "interrupted", "running", or "" for a comparison.
      facts: What stands below the title: name and value.
      sections: The parts, in the order in which they are read.
    """

    title: str
    status: str
    facts: Sequence[tuple[str, Value]]
    sections: Sequence[Section]


def shown(value: object) -> Cell:
    """Returns how a value of a record is shown."""
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

"""Draws docs/images/layers.svg: the package's layers, from the import-linter contracts in pyproject.toml.

The text of a row is the first sentence of the docstring of the package or module. Run it after a change of either:

    python scripts/layers.py [FILE]
"""

from __future__ import annotations

import ast
import html
import pathlib
import sys
import textwrap
from collections.abc import Iterator

import tomllib

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
IMAGE = REPOSITORY / "docs" / "images" / "layers.svg"
PACKAGE = "generic_trainer"

_WIDTH = 900
_MARGIN = 14  # around the picture, and between nested boxes
_GAP = 5  # between layers
_NAME_WIDTH = 216
_LINE = 17
_CHARACTER = 6.9  # average width at the size of the descriptions
_STYLE = """
  rect { fill: #f3f5fb; stroke: #b9c1da }
  .page { fill: #ffffff; stroke: none }
  .group { fill: #ffffff }
  text { font: 12.5px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #3d4354 }
  .name { font: 600 13px ui-monospace, "DejaVu Sans Mono", monospace; fill: #1a1d29 }
  @media (prefers-color-scheme: dark) {
    rect { fill: #292d3a; stroke: #4d5469 }
    .page, .group { fill: #1d2029 }
    text { fill: #bfc5d4 }
    .name { fill: #f0f2f7 }
  }
"""


def contracts() -> dict[str, list[list[str]]]:
    """Returns {container: layers from top to bottom}; modules of one layer do not import each other."""
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    return {
        container: [layer.split(" : ") for layer in contract["layers"]]
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
        for container in contract["containers"]
    }


def description(module: str) -> str:
    """Returns the first sentence of a package's or module's docstring, without the period."""
    path = REPOSITORY.joinpath(*module.split(".")[1:])
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    sentence = " ".join(docstring.partition("\n\n")[0].split()).partition(". ")[0]
    return sentence.rstrip(".").replace("`", "")


class Drawing:
    """Boxes of layers from top to bottom; `y` is the top of the next box."""

    def __init__(self) -> None:
        self.y = _MARGIN
        self._layers = contracts()

    def container(self, name: str, x: int) -> Iterator[str]:
        """Yields the boxes of a container's layers."""
        for layer in self._layers[name]:
            yield from self._layer([f"{name}.{module}" for module in layer], x)
            self.y += _GAP

    def _layer(self, modules: list[str], x: int) -> Iterator[str]:
        """Yields a box with a row per module, and with the nested boxes of modules that are containers."""
        top, inside = self.y, []
        self.y += 5
        for module in modules:
            inside += self._row(module, x + 10)
            if module in self._layers:
                self.y += 4
                inside += self.container(module, x + _MARGIN)
        self.y += 6
        kind = ' class="group"' if any(module in self._layers for module in modules) else ""
        size = f'width="{_WIDTH - 2 * x}" height="{self.y - top}"'
        yield f'<rect{kind} x="{x}" y="{top}" {size} rx="5"/>'
        yield from inside

    def _row(self, module: str, x: int) -> Iterator[str]:
        """Yields the texts of a module's name and its wrapped description."""
        path = REPOSITORY.joinpath(*module.split(".")[1:])
        name = module.rpartition(".")[2] + ("/" if path.is_dir() else ".py")
        yield f'<text class="name" x="{x}" y="{self.y + 13}">{name}</text>'
        columns = int((_WIDTH - 2 * x - _NAME_WIDTH) / _CHARACTER)
        for line in textwrap.wrap(description(module), columns):
            self.y += _LINE
            yield f'<text x="{x + _NAME_WIDTH}" y="{self.y - 4}">{html.escape(line, quote=False)}</text>'


def picture() -> str:
    """Returns the picture as SVG."""
    drawing = Drawing()
    boxes = "\n".join(drawing.container(PACKAGE, _MARGIN))
    height = drawing.y - _GAP + _MARGIN
    shape = f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="title"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {shape}>
<title id="title">The layers of {PACKAGE}, top down. A row imports only from rows below it.</title>
<style>{_STYLE}</style>
<rect class="page" width="{_WIDTH}" height="{height}"/>
{boxes}
</svg>
"""


if __name__ == "__main__":
    pathlib.Path(*sys.argv[1:2] or [IMAGE]).write_text(picture(), encoding="utf-8")

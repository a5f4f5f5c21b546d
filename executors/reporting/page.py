"""Renders a report as one HTML file that contains its styles, scripts and data, and cannot access the network.

All names and values are escaped. The page's Content-Security-Policy permits only its own scripts, by hash.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources

import jinja2

from .document import Block, Chart, Report, as_cell
from .drawing import arrows_of, bars_of, layout_of

# Apache ECharts 6.1.0 with its common charts, from the npm package `echarts`; its license is in the same folder.
_SCRIPTS = ("vendor/echarts.common.min.js", "templates/page.js")


def html_of(report: Report) -> str:
    """Returns the HTML of a report."""
    sections = [section for section in report.sections if section]
    charts = any(isinstance(block, Chart) and block for section in sections for block in section.blocks)
    scripts = [_text(name) for name in (_SCRIPTS if charts else _SCRIPTS[1:])]
    page = template().render(
        report=report,
        sections=sections,
        scripts=scripts,
        policy=" ".join(_hash(script) for script in scripts),
        style=_text("templates/page.css"),
    )
    return page.lstrip()


@functools.cache
def template() -> jinja2.Template:
    """Returns the compiled template."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _text(f"templates/{name}")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"kind": _kind, "as_cell": as_cell, "plain_number": _plain_number}
    environment.globals |= {"bars_of": bars_of, "layout_of": layout_of, "arrows_of": arrows_of, "zip": zip}
    return environment.get_template("page.html")


@functools.cache
def _text(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(*name.split("/")).read_text(encoding="utf-8")


@functools.cache
def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _kind(block: Block) -> str:
    return type(block).__name__.lower()


def _plain_number(value: object) -> str:
    """Returns a number in machine-readable format; other values as strings, None as ""."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)

"""A report as one HTML file: its style, its scripts and its data are in it, and it may not reach the network.

Names and values are escaped wherever they stand. The only scripts that a browser runs are the two that are named, by
their hash, in the page's Content-Security-Policy.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.resources

import jinja2

from .document import Block, Chart, Report, shown
from .drawing import arrows_of, bars_of, place

# Apache ECharts 6.1.0, its common charts, as it is in the npm package `echarts`; its licence lies beside it.
_SCRIPTS = ("vendor/echarts.common.min.js", "templates/page.js")


def html_of(report: Report) -> str:
    """Returns the page."""
    sections = [section for section in report.sections if section]
    charts = any(isinstance(block, Chart) and block for section in sections for block in section.blocks)
    scripts = [_text(name) for name in (_SCRIPTS if charts else _SCRIPTS[1:])]
    page = _template().render(
        report=report,
        sections=sections,
        scripts=scripts,
        policy=" ".join(_hash(script) for script in scripts),
        style=_text("templates/page.css"),
    )
    return page.lstrip()


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: _text(f"templates/{name}")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"kind": _kind, "shown": shown, "plain_number": _plain_number}
    environment.globals |= {"bars_of": bars_of, "place": place, "arrows_of": arrows_of, "zip": zip}
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
    """Returns a number as scripts and spreadsheets read it; a name as it is."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)

"""Runs the tutorial notebook in a temporary folder, and stores its outputs and a picture of its first run's report.

.venv/bin/python scripts/run_notebook.py docs/tutorial.ipynb docs/images/tutorial-report.png
"""

from __future__ import annotations

import pathlib
import re
import shutil
import sys
import tempfile
from typing import Any

import nbformat
from nbclient import NotebookClient
from playwright.sync_api import sync_playwright

_TIMEOUT = 300  # seconds per cell
_LONGEST_TEXT = 60  # characters of the plain text alternative of an HTML output
# TensorFlow's C++ logs and warnings of packages, which are removed from outputs.
_NOISE = re.compile(r"^(WARNING:|[IWE]0000 |To enable the following).*\n?", re.MULTILINE)


def executed(path: pathlib.Path, picture: pathlib.Path | None = None) -> Any:
    """Runs a notebook, and returns it with its outputs.

    Args:
      path: The notebook.
      picture: File for a screenshot of the report `out/model_run/report.html`.

    Raises:
      CellExecutionError: When a cell raises.
    """
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=_TIMEOUT, kernel_name="python3", resources=resources).execute()
        if picture:
            _screenshot(pathlib.Path(folder) / "out" / "model_run" / "report.html", picture)
    return notebook


def _screenshot(page: pathlib.Path, picture: pathlib.Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1280, "height": 1100})
        shown.goto(page.as_uri())
        shown.screenshot(path=picture)
        browser.close()


def tidied(notebook: Any) -> Any:
    """Returns the notebook without cell metadata, log noise and empty outputs."""
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = _merged([output for output in map(_tidy, cell.outputs) if output is not None])
    return notebook


def _tidy(output: Any) -> Any:
    if output.output_type == "stream":
        output.text = _NOISE.sub("", output.text)
        return output if output.text.strip() else None
    output.data.pop("application/javascript", None)
    if "text/html" in output.data and len(output.data.get("text/plain", "")) > _LONGEST_TEXT:
        output.data["text/plain"] = output.data["text/plain"][:_LONGEST_TEXT] + "…"
    return output if output.data else None


def _merged(outputs: list[Any]) -> list[Any]:
    """Merges consecutive outputs of the same stream, as an interactive notebook does."""
    merged: list[Any] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if last is not None and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            merged.append(output)
    return merged


def main(path: str, picture: str) -> None:
    """Runs the notebook and overwrites it and the picture."""
    notebook = tidied(executed(pathlib.Path(path), pathlib.Path(picture)))
    nbformat.write(notebook, path)


if __name__ == "__main__":
    main(*sys.argv[1:])

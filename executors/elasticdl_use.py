"""Whether a module's source is a model file of ElasticDL's, read off before it runs.

It has to be known before: the names that it imports have to be there for the module's first line, and ElasticDL's model
files were written for Keras 2.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from .elasticdl import provide_elasticdl
from .module_source import defines, parsed

_PARTS = ("loss", "optimizer")
FEED_NAMES = ("feed", "dataset_fn")
_PACKAGES = ("elasticdl", "elasticdl_preprocessing", "elasticdl_client", "elasticai_api")


def elasticdl_use(path: str) -> tuple[int, str] | None:
    """Returns the line and the words by which a source file is one of ElasticDL's, or None.

    It imports ElasticDL, or defines what every model file has to.
    """
    found = [
        (node.lineno, ast.unparse(node))
        for node in ast.walk(parsed(path))
        if isinstance(node, (ast.Import, ast.ImportFrom)) and any(_is_elasticdl(name) for name in _modules(node))
    ]
    if not found and all(defines(path, name) for name in _PARTS):
        found = [(1, f"loss, optimizer and {feed}, as in ElasticDL") for feed in FEED_NAMES if defines(path, feed)]
    return min(found, default=None)


def provide_what_is_used(files: Sequence[str]) -> None:
    """Provides ElasticDL's names, if a module's files import any."""
    if any(elasticdl_use(file) for file in files):
        provide_elasticdl()


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if node.module and not node.level else []


def _is_elasticdl(name: str) -> bool:
    return name.partition(".")[0] in _PACKAGES

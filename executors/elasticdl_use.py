"""Whether a module's source imports ElasticDL, read off before it runs.

It has to be known before: the names have to be there for the module's first line, and ElasticDL's model files were
written for Keras 2.
"""

from __future__ import annotations

import ast

from .module_source import parsed

_PACKAGES = ("elasticdl", "elasticdl_preprocessing", "elasticdl_client", "elasticai_api")


def elasticdl_use(path: str) -> tuple[int, str] | None:
    """Returns the line and the words by which a source file imports ElasticDL, or None."""
    found = [
        (node.lineno, ast.unparse(node))
        for node in ast.walk(parsed(path))
        if isinstance(node, (ast.Import, ast.ImportFrom)) and any(_is_elasticdl(name) for name in _modules(node))
    ]
    return min(found, default=None)


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if node.module and not node.level else []


def _is_elasticdl(name: str) -> bool:
    return name.partition(".")[0] in _PACKAGES

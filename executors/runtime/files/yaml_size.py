"""Keeps YAML that is small on disk from being huge in memory: an alias stands for all that its anchor holds.

require_small(yaml.compose(text, yaml.SafeLoader), "taxi.yaml")
"""

from __future__ import annotations

from typing import Any

import yaml

from ...errors import InputError

_MOST_VALUES = 1_000_000


def require_small(node: Any, where: str) -> None:
    """Makes sure that a document has no more than a million values when its aliases are written out.

    Args:
      node: The document, as YAML's parser has it.
      where: Its file, for the message.

    Raises:
      InputError: When it has more, holds itself, or has a key twice in one mapping.
    """
    if _size(node, {}, where) > _MOST_VALUES:
        raise InputError(f"{where}: with its aliases written out it has more than {_MOST_VALUES:,} values.")


def _require_unique_keys(node: Any, where: str) -> None:
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            line = key.start_mark.line + 1
            if key.value in lines:
                raise InputError(f"{where}, line {line}: {key.value} is in line {lines[key.value]} already.")
            lines[key.value] = line


def _size(node: Any, known: dict[int, int | None], where: str) -> int:
    if isinstance(node, yaml.ScalarNode) or node is None:
        return 1
    if id(node) not in known:
        known[id(node)] = None
        _require_unique_keys(node, where)
        parts = [part for pair in node.value for part in (pair if isinstance(pair, tuple) else (pair,))]
        known[id(node)] = 1 + sum(_size(part, known, where) for part in parts)
    size = known[id(node)]
    if size is None:
        raise InputError(f"{where}, line {node.start_mark.line + 1}: this holds itself, by an alias.")
    return size

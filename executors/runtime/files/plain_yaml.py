"""Loads YAML without aliases and duplicate keys: small texts cannot expand to huge documents.

loader = PlainLoader(text, "--config taxi.yaml")
loader.get_data()
"""

from __future__ import annotations

import yaml

from ...errors import InputError


class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """A SafeLoader that rejects aliases and duplicate keys.

    Args:
      text: The YAML text.
      where: Its file, for messages.

    Raises:
      InputError: When the text has an alias or a duplicate key; the message names the line.
    """

    def __init__(self, text: str, where: str) -> None:
        super().__init__(text)
        self._where = where

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node:
        """Composes a value; rejects aliases."""
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise InputError(
                f"{self._where}, line {event.start_mark.line + 1}: the alias *{event.anchor} is not supported; write "
                "out the value."
            )
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        """Composes a mapping; rejects duplicate keys."""
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in lines:
                raise InputError(
                    f"{self._where}, line {line}: duplicate key {key.value}, also in line {lines[key.value]}."
                )
            lines[key.value] = line
        return node

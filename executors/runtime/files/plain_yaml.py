"""Reads the part of YAML that JSON has: no aliases, tags, duplicate keys, times, NaN, or values nested without limit.

[job] = yaml_documents("job.yaml", "--from")
with yaml_errors("--config taxi.yaml"):
    options = PlainLoader(text, "--config taxi.yaml").get_single_data()
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import yaml

from ...errors import InputError
from .plain_values import require_plain
from .user_text import read_user_file

_TIME = "tag:yaml.org,2002:timestamp"
_TEXT = "tag:yaml.org,2002:str"


class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """A SafeLoader that rejects aliases, tags and duplicate keys; keys and times are texts.

    Args:
      text: The YAML text.
      where: Its file, for messages.

    Raises:
      InputError: When the text has an alias, a tag or a duplicate key; the message names the line.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012  (of yaml.SafeLoader)
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIME]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str, where: str) -> None:
        super().__init__(text)
        self._where = where

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node:
        """Composes a value; rejects aliases and tags."""
        event = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise self._error(event, f"the alias *{event.anchor} is not supported; write out the value.")
        if event.tag is not None:
            raise self._error(event, f"the tag {event.tag} is not supported; omit it, and quote a text.")
        return super().compose_node(parent, index)

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        """Composes a mapping; rejects duplicate keys and merge keys."""
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in lines:
                raise self._error(key, f"duplicate key {key.value}, also in line {lines[key.value]}.")
            if key.value == "<<" and key.style is None:
                raise self._error(key, "the merge key << is not supported; write out the values.")
            lines[key.value] = key.start_mark.line + 1
            key.tag = _TEXT
        return node

    def _error(self, place: yaml.Event | yaml.Node, problem: str) -> InputError:
        return InputError(f"{self._where}, line {place.start_mark.line + 1}: {problem}")


def yaml_documents(path: str, flag: str) -> list[object]:
    """Reads the documents of a YAML file, without empty ones.

    Args:
      path: The file.
      flag: The flag with the path, for messages.

    Raises:
      InputError: When the file cannot be read, is too large, or has something that JSON does not have.
    """
    where = f"{flag} {path}"
    content = read_user_file(path, flag)
    documents = []
    with yaml_errors(where):
        loader = PlainLoader(content.decode("utf-8"), where)
        while loader.check_data():
            documents.append(loader.get_data())
    require_plain(documents, where)
    return [document for document in documents if document is not None]


@contextlib.contextmanager
def yaml_errors(where: str) -> Iterator[None]:
    """Replaces errors of the YAML parser in a block by InputErrors that name the file."""
    try:
        yield
    except InputError:
        raise
    except RecursionError as error:
        raise InputError(f"{where}: values are nested too deeply.") from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: no UTF-8, or an integer of thousands of digits
        raise InputError(f"{where}: invalid YAML: {error}") from error

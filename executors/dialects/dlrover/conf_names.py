"""Checks the names in a conf: misspelled settings are errors, and others that nothing reads get a warning.

A conf class may have attributes of its own: lists of columns that `train_set` is built from, or values that the model
reads from DLRover's `Configuration`. So an unknown attribute is an error only if its value could be that of a setting,
a number, a text or a dict, and its name is almost that of one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ...errors import InputError, did_you_mean
from ...spelling import is_misspelling, nearest

DATA_SET_KEYS = ("columns", "reader", "reader_fn", "path", "field_delim", "value_delim", "batch_size", "epoch")
_KINDS = (bool, int, float, str, Mapping)


def require_no_misspelling(names: Mapping[str, object], known: Collection[str], where: str) -> None:
    """Checks the names of settings.

    Args:
      names: Settings by name.
      known: The names of all settings.
      where: The conf, and the dict in it, for the message.

    Raises:
      InputError: If a name is a misspelling of a known one.
    """
    for name in _unknown(names, known):
        near = nearest(name, known)
        if near is not None and is_misspelling(name, near):
            raise InputError(f"{where}: there is no setting {name!r}. Did you mean {near!r}?")


def unused_names(names: Mapping[str, object], known: Collection[str], where: str) -> Iterator[str]:
    """Yields a warning for each setting with an unknown name. The arguments are those of `require_no_misspelling`."""
    for name in _unknown(names, known):
        yield f"{where}: the setting {name!r} is not used, unless the model reads it.{did_you_mean(name, known)}"


def _unknown(names: Mapping[str, object], known: Collection[str]) -> list[str]:
    return [
        str(name)
        for name, value in names.items()
        if isinstance(value, _KINDS) and name not in known and not str(name).startswith("_")
    ]

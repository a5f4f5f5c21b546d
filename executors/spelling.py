"""Finds the known name that a misspelled name stands for.

A name is plausible if it is a few edits away, or if one of the two names contains the other one. Case, underscores,
hyphens and blanks are ignored. Names that merely share many characters, such as trip_miles and trip_seconds, or
petal_width and sepal_width, are different names.

Usage:

    nearest("save_step", ["max_steps", "save_steps"])       # "save_steps"
    nearest("batchsize", ["epoch", "minibatch_size"])       # "minibatch_size"
    nearest("trip_seconds", ["trip_miles"])                 # None
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable

# The usual slips of the keyboard, an omitted, an added or a swapped character, count less than another character.
_SLIP = 0.5
_OTHER_CHARACTER = 1.0
_MAX_EDITS = 1.5
_MAX_EDITS_OF_MISSPELLING = 1.0
_CHARACTERS_PER_EDIT = 4
_MIN_CHARACTERS = 3  # a name of one or two characters is one edit away from many others
_MIN_SHARE = 0.55  # of a name that is contained in another one
_MAX_SHIFT = int(_MAX_EDITS / _SLIP)  # characters that can be omitted or added
_COMPARED = 1000  # maximum number of names, and maximum length of a name in characters
_SEPARATORS = re.compile(r"[\s_-]+")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name with the fewest edits, or None if none is plausible; `name` itself is left out."""
    others = (other for other in itertools.islice(known, _COMPARED) if other != name)
    ranked = [(edits, other) for other in others if (edits := _distance(name, other)) <= _MAX_EDITS]
    return min(ranked, key=lambda found: found[0])[1] if ranked else None


def is_misspelling(name: str, other: str) -> bool:
    """Whether a name differs so little from another one that it is hardly a name of its own."""
    return _distance(name, other) <= _MAX_EDITS_OF_MISSPELLING


def _distance(name: str, other: str) -> float:
    """Returns the edits between two names; infinite if they are too many for the length of the names or their words."""
    if max(len(name), len(other)) > _COMPARED:
        return math.inf
    words, others = (_SEPARATORS.split(text.casefold()) for text in (name, other))
    short, long = sorted(("".join(words), "".join(others)), key=len)
    if short == long:
        return 0.0
    if len(long) < _MIN_CHARACTERS:
        return math.inf
    pairs = list(zip(words, others, strict=True)) if len(words) == len(others) else [(short, long)]
    edits = [_edits(*sorted(pair, key=len)) for pair in pairs]
    is_plausible = all(one <= max(1.0, _limit(max(pair, key=len))) for one, pair in zip(edits, pairs, strict=True))
    if is_plausible and sum(edits) <= _limit(long):
        return sum(edits)
    return _MAX_EDITS if short in long and len(short) >= _MIN_SHARE * len(long) else math.inf


def _limit(name: str) -> float:
    return min(_MAX_EDITS, len(name) / _CHARACTERS_PER_EDIT)


def _edits(short: str, long: str) -> float:
    """Returns the edit distance with swapped neighbors ("optimal string alignment"), exact up to _MAX_EDITS."""
    rows = [{column: column * _SLIP for column in range(_MAX_SHIFT + 1)}]
    for i in range(1, len(short) + 1):
        above, row = rows[-1], {0: i * _SLIP}
        for j in range(max(1, i - _MAX_SHIFT), min(len(long), i + _MAX_SHIFT) + 1):
            replaced = above.get(j - 1, math.inf) + _OTHER_CHARACTER * (short[i - 1] != long[j - 1])
            row[j] = min(replaced, above.get(j, math.inf) + _SLIP, row.get(j - 1, math.inf) + _SLIP)
            if i > 1 and j > 1 and short[i - 2 : i] == long[j - 2 : j][::-1]:
                row[j] = min(row[j], rows[-2].get(j - 2, math.inf) + _SLIP)
        if min(row.values()) > _MAX_EDITS:
            return math.inf
        rows.append(row)
    return rows[-1].get(len(long), math.inf)

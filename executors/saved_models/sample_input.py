"""An example for the model's check, from a dialect that reads what the check cannot: rows of CSV files, RecordIO.

It stays in the run: what is published holds no record of the data. The JSON is that of TensorFlow Serving's REST API.

Usage, in a dialect:

    offer_example("the first record of iris.csv", {"records": [b"5.1", b"3.5"]})

Around it:

    with example_wanted() as offered:
        run_fn(fn_args)
    features_of(offered)      # {"records": [b"5.1", b"3.5"]}, also after `offered` has gone through JSON
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypedDict, cast

from .. import run_context

Value: TypeAlias = "bytes | str | int | float"


class SampleInput(TypedDict, total=False):
    """An offered example as JSON values; empty when none was offered.

    Attributes:
      source: Where it comes from, for people.
      features: {name of a model's input: its values, in one list; bytes as {"b64": …}}.
    """

    source: str
    features: dict[str, list[Value | dict[str, str]]]


class _Sample(dict[str, object]):
    """The `SampleInput` that is offered."""


@contextlib.contextmanager
def example_wanted() -> Iterator[SampleInput]:
    """Gives a mapping of JSON values, in which the example is that is offered during a block; empty when none is."""
    sample = _Sample()
    with run_context.extended(sample):
        yield cast("SampleInput", sample)


def offer_example(source: str, features: Mapping[str, Sequence[object]]) -> None:
    """Offers an example; outside of `example_wanted` nobody takes it, and of several the last one counts.

    Args:
      source: Where it comes from, for people.
      features: {name of a model's input: its values, in one list: bytes and numbers}.
    """
    sample = run_context.part(_Sample)
    if sample is not None:
        packed = {name: [_packed(value) for value in values] for name, values in features.items()}
        sample.update(source=source, features=packed)


def features_of(offered: SampleInput) -> dict[str, list[Value]]:
    """Returns the features that were offered."""
    return {name: [_unpacked(value) for value in values] for name, values in offered["features"].items()}


def _packed(value: object) -> object:
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _unpacked(value: Value | dict[str, str]) -> Value:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value

"""Sample input for the SavedModel check, provided by dialects whose data the check cannot read: CSV rows, RecordIO.

The sample input is not published with the model. Bytes are encoded as in TensorFlow Serving's REST API.

Usage, in a dialect:

    set_sample_input("the first record of iris.csv", [{"records": [b"5.1", b"3.5"]}, {"records": [b"4.9", b"3.0"]}])

Around it:

    with collect_sample_input() as offered:
        run_fn(fn_args)
    features_of(offered)[0]      # {"records": [b"5.1", b"3.5"]}, also after `offered` has gone through JSON
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, TypedDict, cast

from .. import run_context

SAMPLED_EXAMPLES = 8  # one to run the model on, and others for a batch

Value: TypeAlias = "bytes | str | int | float"


class SampleInput(TypedDict, total=False):
    """A sample input as JSON values; empty if none was set.

    Attributes:
      source: Description of its origin, for messages.
      features: {name of a model's input: flat list of values; bytes as {"b64": …}} of each example.
    """

    source: str
    features: list[dict[str, list[Value | dict[str, str]]]]


class _Sample(dict[str, object]):
    """Collects the `SampleInput` in the run's context."""


@contextlib.contextmanager
def collect_sample_input() -> Iterator[SampleInput]:
    """Collects the sample input set in the block; yields the mapping that `set_sample_input` fills."""
    sample = _Sample()
    with run_context.extended(sample):
        yield cast("SampleInput", sample)


def set_sample_input(source: str, features: Sequence[Mapping[str, Sequence[object]]]) -> None:
    """Sets the sample input, replacing an earlier one; a no-op outside of `collect_sample_input`.

    Args:
      source: Description of the first example's origin, for messages.
      features: {name of a model's input: flat list of bytes or numbers} of each example. The model is run on the first
        one, and on all together.
    """
    sample = run_context.part(_Sample)
    if sample is not None:
        packed = [
            {name: [_packed(value) for value in values] for name, values in example.items()} for example in features
        ]
        sample.update(source=source, features=packed)


def features_of(offered: SampleInput) -> list[dict[str, list[Value]]]:
    """Returns the features of each example of a sample input, with decoded bytes."""
    return [
        {name: [_unpacked(value) for value in values] for name, values in example.items()}
        for example in offered["features"]
    ]


def _packed(value: object) -> object:
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _unpacked(value: Value | dict[str, str]) -> Value:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value

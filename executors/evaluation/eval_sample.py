"""A random sample of an eval split, small enough to keep in memory."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Sequence

from ..examples_format import TF_EXAMPLE
from ..inputs.input_format import format_of_payload

_EXAMPLES, _BYTES = 10_000, 1 << 26  # size of the sample
_BATCH = 512


@dataclasses.dataclass(frozen=True)
class Sample:
    """A sample of serialized examples.

    Attributes:
      records: The examples.
      total: Number of examples that it was drawn from.
      is_complete: Whether these are all examples of the files; False if reading took too long.
    """

    records: Sequence[bytes]
    total: int
    is_complete: bool = True


def sample_of(files: Sequence[str], seconds: float, payload: str = TF_EXAMPLE) -> Sample:
    """Draws a uniform sample of at most 10,000 examples and 64 MiB; the same one for the same files.

    Args:
      files: Files of tf.Examples, or of a format that can be converted to them.
      seconds: Time after which no more examples are read.
      payload: The payload format of the files.

    Raises:
      InputError: If a file is damaged, or not of the payload format.
    """
    deadline, chance = time.monotonic() + seconds, random.Random(0)  # noqa: S311 (no secret)
    kept: list[bytes] = []
    total, size, form = 0, _EXAMPLES, format_of_payload(payload)
    for file in files:
        for batch in form.examples(file, _BATCH):
            if not total:
                average = sum(map(len, batch.records)) / len(batch.records)
                size = max(1, min(_EXAMPLES, int(_BYTES / max(average, 1))))
            for record in batch.records:  # reservoir sampling: each example is kept with probability size / total
                total += 1
                if len(kept) < size:
                    kept.append(record)
                elif (place := chance.randrange(total)) < size:
                    kept[place] = record
            if time.monotonic() > deadline:
                return Sample(kept, total, is_complete=False)
    return Sample(kept, total)

"""A ledger that leaves out bad rows counts the good ones, also over a crash."""

from __future__ import annotations

import pytest

from generic_trainer.executors.dialects.dlrover.sharding.shard_ledger import ShardLedger
from generic_trainer.executors.dialects.dlrover.sharding.skipping_ledger import SkippingLedger, place_after


@pytest.mark.parametrize(
    ("start", "good", "bad", "place"),
    [(0, 3, (), 3), (0, 3, (1,), 4), (0, 3, (3, 4), 5), (0, 0, (0, 1), 2), (5, 2, (0, 6), 8), (0, 1, (0,), 2)],
)
def test_places_count_the_rows_that_are_left_out(start: int, good: int, bad: tuple[int, ...], place: int) -> None:
    assert place_after(start, good, bad) == place


def test_a_ledger_whose_rows_are_left_out_is_finished_and_resumes_at_the_same_rows() -> None:
    bad = {0, 7, 8, 9, 10, 11, 19}
    inner = ShardLedger(20, 5, epochs=2)
    ledger = SkippingLedger(inner, bad)
    rows: list[int] = []
    seen: list[int] = []
    while True:
        while len(rows) < 4 and (shard := ledger.take()):
            rows += [number for number in range(shard.start, shard.end) if number not in bad]
        if not rows:
            break
        batch, rows = rows[:4], rows[4:]
        seen += batch
        ledger.trained(len(batch))
        if len(seen) == 12:  # a crash: what was taken and not trained comes back
            inner = ShardLedger.from_json(inner.to_json())
            ledger, rows = SkippingLedger(inner, bad), []
    assert seen == [number for number in range(20) if number not in bad] * 2
    assert inner.done == 40
    assert inner.is_finished

"""Translates between positions that count all rows and the number of good rows, if bad rows are skipped.

Usage:

    bad = {7}
    place_after(0, 10, bad)               # 11: ten good rows and a bad one
    ledger = SkippingLedger(ShardLedger(1000, 100), bad)
    ledger.trained(10)                    # the wrapped ledger counts 11 rows
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .shard_ledger import Ledger, Shard


def place_after(start: int, good: int, bad: Collection[int]) -> int:
    """Returns the position after `good` good rows from `start`, and after any bad rows that directly follow them."""
    place = start
    while good or place in bad:
        good -= place not in bad
        place += 1
    return place


class SkippingLedger:
    """Wraps a ledger for a reader that skips bad rows, so that shards yield fewer rows than they contain.

    Args:
      inner: The ledger of all rows.
      bad: Numbers of the skipped rows. The reader adds those of a shard before any row of the shard is used.
    """

    def __init__(self, inner: Ledger, bad: Collection[int]) -> None:
        self._inner = inner
        self._bad = bad

    def trained(self, count: int) -> None:
        """Marks the next `count` good rows as trained, together with the bad rows among and directly after them."""
        total = 0
        for shard in self._inner.taken():
            good = sum(number not in self._bad for number in range(shard.start, shard.end))
            if count < good:
                total += place_after(shard.start, count, self._bad) - shard.start
                break
            total, count = total + shard.count, count - good
        self._inner.trained(total)

    def take(self) -> Shard | None:
        """See `Ledger`."""
        return self._inner.take()

    def taken(self) -> list[Shard]:
        """See `Ledger`."""
        return self._inner.taken()

    def put_back(self, shards: Iterable[Shard]) -> None:
        """See `Ledger`."""
        self._inner.put_back(shards)

    def failed(self, shard: Shard, error: BaseException | None = None) -> None:
        """See `Ledger`."""
        self._inner.failed(shard, error)

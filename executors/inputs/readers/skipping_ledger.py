"""Rows that are left out keep their places: a position counts all rows, also those that did not come.

Usage:

    bad = {7}
    place_after(0, 10, bad)               # 11: ten rows and the bad one among them
    ledger = SkippingLedger(ShardLedger(1000, 100), bad)
    ledger.trained(10)                    # the ledger inside notes 11
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from .shard_ledger import Ledger, Shard


def place_after(start: int, good: int, bad: Collection[int]) -> int:
    """Returns where the rows go on after so many good ones from a place on; bad ones that follow at once are passed."""
    place = start
    while good or place in bad:
        good -= place not in bad
        place += 1
    return place


class SkippingLedger:
    """A ledger whose shards give fewer rows than they have.

    Args:
      inner: The ledger of all rows.
      bad: Numbers of the rows that do not come; those of a shard are in it before its other rows are used.
    """

    def __init__(self, inner: Ledger, bad: Collection[int]) -> None:
        self._inner = inner
        self._bad = bad

    def trained(self, count: int, worker: str = "") -> None:
        """Notes that the next so many of the rows that came are in the weights, and with them the bad ones around."""
        total = 0
        for shard in self._inner.taken(worker):
            good = sum(number not in self._bad for number in range(shard.start, shard.end))
            if count < good:
                total += place_after(shard.start, count, self._bad) - shard.start
                break
            total, count = total + shard.count, count - good
        self._inner.trained(total, worker)

    def take(self, worker: str = "") -> Shard | None:
        """See Ledger."""
        return self._inner.take(worker)

    def taken(self, worker: str = "") -> list[Shard]:
        """See Ledger."""
        return self._inner.taken(worker)

    def put_back(self, shards: Iterable[Shard], worker: str = "") -> None:
        """See Ledger."""
        self._inner.put_back(shards, worker)

    def failed(self, shard: Shard, error: BaseException | None = None, worker: str = "") -> None:
        """See Ledger."""
        self._inner.failed(shard, error, worker)

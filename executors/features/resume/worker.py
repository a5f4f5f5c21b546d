"""Restores the completed fits of an earlier attempt."""

from __future__ import annotations

from ...keras import completed_fits
from ...training.worker_callbacks import Context, WorkerCallback


class CompletedFits(WorkerCallback):
    """Restores them; innermost, as the others observe restored fits as well."""

    order = 90

    def around(self) -> Context:
        """Restores them."""
        return completed_fits.restored(self.request.fn_args, self.request.source)

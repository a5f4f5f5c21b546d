"""Gives the module a `data_accessor` with a cache."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...inputs.data_accessor import CacheOptions, DataAccessor
from ...training.worker_callbacks import WorkerCallback


class InputCache(WorkerCallback):
    """Sets `fn_args.data_accessor`, with the option `input_cache`."""

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Sets it."""
        args, options = self.request.fn_args, self.request.options
        if options.input_cache is not None:
            cache = CacheOptions(options.input_cache, options.input_cache_gb)
            args.data_accessor = DataAccessor.for_format(args.examples_format, cache)
        yield

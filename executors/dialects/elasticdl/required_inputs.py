"""Checks the inputs that a job's flags name, before its model file is imported."""

from __future__ import annotations

from collections.abc import Sequence

from ...fn_args import FnArgs
from ...modules.defined_names import defines
from .options import ElasticDLOptions
from .readers.reader_params import ReaderParams, find_records, parse_reader_params


def require_inputs(files: Sequence[str], fn_args: FnArgs) -> None:
    """See `Dialect.require_inputs`."""
    options = ElasticDLOptions.of(fn_args)
    params = ReaderParams.of(parse_reader_params(options.data_reader_params))
    parse_reader_params(options.model_params, "--model_params")
    if any(defines(path, options.custom_data_reader) for path in files):
        return
    for data in filter(None, (options.training_data, options.validation_data)):
        find_records([data], params)

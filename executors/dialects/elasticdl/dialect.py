"""The dialect of ElasticDL model files."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import ModuleType

from ...fn_args import FnArgs
from ...modules.defined_names import defines
from ...options import TrainingOptions
from ..base import Dialect, Evidence, RunFn, limit_loop
from ..signatures import require_call
from .detection import FEED_NAMES, find_elasticdl_use


class ElasticDLDialect(Dialect):
    """ElasticDL model files. A requested `function` is the name of the model definition."""

    needs = "a Keras model (custom_model, CustomModel or model), feed or dataset_fn, loss and optimizer"
    functions = ("custom_model", "feed", "dataset_fn", "loss", "optimizer", "eval_metrics_fn")
    installed_first = True  # the folders of a model zoo are named after libraries and data sets: deepctr, mnist
    no_scaffold = "its models read single records, without statistics of the data such as means and vocabularies"
    eval_remedies = ("Set --validation_data, and define eval_metrics_fn in the model file.",) * 2

    def detect(self, path: str) -> Evidence | None:
        """Returns where a file imports ElasticDL or defines the required parts of a model file."""
        found = find_elasticdl_use(path)
        if found is None:
            return None
        from .options import ElasticDLOptions

        own_reader = defines(path, ElasticDLOptions.custom_data_reader)
        return Evidence(*found, keras="2", reads_any_origin=own_reader)

    def require_inputs(self, files: Sequence[str], fn_args: FnArgs) -> None:
        """Checks the flags, and that there are data, unless the model file reads them itself."""
        from ...inputs.readers.reader_params import ReaderParams, parse_reader_params
        from ...inputs.readers.record_files import find_records
        from .options import ElasticDLOptions

        options = ElasticDLOptions.of(fn_args)
        params = ReaderParams.of(parse_reader_params(options.data_reader_params))
        parse_reader_params(options.model_params, "--model_params")
        if any(defines(path, options.custom_data_reader) for path in files):
            return
        for data in filter(None, (options.training_data, options.validation_data)):
            find_records([data], params)

    def prepare(self, files: Sequence[str]) -> None:
        """Installs the shims for ElasticDL's packages if a file uses ElasticDL."""
        if any(find_elasticdl_use(file) for file in files):
            from .shim import provide_elasticdl

            provide_elasticdl()

    def matches(self, module: ModuleType, function: str | None) -> str:
        """Returns the reason if a module has a model, a feed function, a loss and an optimizer."""
        from .parts import MODEL_NAMES

        feed = next((name for name in FEED_NAMES if callable(getattr(module, name, None))), None)
        model = next((name for name in (function, *MODEL_NAMES) if name and hasattr(module, name)), None)
        has_loss = callable(getattr(module, "loss", None))
        if feed is None or model is None or not has_loss or not hasattr(module, "optimizer"):
            return ""
        return f"it defines {model}, {feed}, loss and optimizer"

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
        """Returns a `run_fn` that trains the module's model and exports it."""
        from .run import train

        return lambda fn_args: train(module, function, fn_args)

    def check(self, module: ModuleType, function: str | None, fn_args: FnArgs) -> list[str]:
        """Checks that feed, loss and optimizer exist, and the parameters of loss and optimizer.

        Raises:
          ModuleError: When one is missing or cannot be called; names the required signature.
        """
        from .options import ElasticDLOptions
        from .parts import Parts

        options = ElasticDLOptions.of(fn_args)
        Parts(module, function, options).require()
        require_call(module, options.loss, getattr(module, options.loss, None), 2, "loss(labels, predictions)")
        optimizer = getattr(module, options.optimizer, None)
        if inspect.isroutine(optimizer):
            require_call(module, options.optimizer, optimizer, 0, "optimizer(), with defaults for all parameters")
        return []

    def steps_requested(self, module: ModuleType, function: str | None, fn_args: FnArgs) -> int | None:
        """Returns the flag `max_step`, else `train_steps`; None if neither is set."""
        return int((fn_args.custom_config or {}).get("max_step") or fn_args.train_steps or 0) or None

    def limit_steps(self, fn_args: FnArgs, steps: int) -> bool:
        """Limits the training loop and returns True; a trial does not resume from the user's checkpoints."""
        limit_loop(fn_args, steps)
        return True

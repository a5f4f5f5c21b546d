"""The dialect of ElasticDL model files."""

from __future__ import annotations

from collections.abc import Sequence

from ...fn_args import FnArgs
from ...modules.defined_names import defines
from ..base import Dialect, Evidence
from .detection import CUSTOM_READER, find_elasticdl_use

# Flags that do not change how a step trains.
RESUMABLE_ARGUMENTS = (
    *("evaluation_steps", "checkpoint_steps", "log_loss_steps", "keep_checkpoint_max", "checkpoint_dir"),
    *("checkpoint_dir_for_init", "records_per_task", "num_minibatches_per_task"),
)


class ElasticDLDialect(Dialect):
    """ElasticDL model files; see `ElasticDLAdapter`."""

    needs = "a Keras model (custom_model, CustomModel or model), feed or dataset_fn, loss and optimizer"
    installed_first = True  # the folders of a model zoo are named after libraries and data sets: deepctr, mnist
    no_scaffold = "its models read single records, without statistics of the data such as means and vocabularies"

    def detect(self, path: str) -> Evidence | None:
        """Returns where a file imports ElasticDL or defines the required parts of a model file."""
        use = find_elasticdl_use(path)
        own_reader = defines(path, CUSTOM_READER)
        return Evidence(*use, keras="2", reads_any_origin=own_reader) if use else None

    def require_inputs(self, files: Sequence[str], fn_args: FnArgs) -> None:
        """Checks the flags, and that there are data, unless the model file reads them itself."""
        from .required_inputs import require_inputs

        require_inputs(files, fn_args)

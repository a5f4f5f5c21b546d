"""The dialect of DLRover conf classes.

Detection cannot wait for the import: before the module's first line runs, the shims for DLRover's packages must be
installed, TensorFlow 2 behavior disabled as in DLRover's trainer, and `tf.estimator` restored.
"""

from __future__ import annotations

from ..base import Dialect, Evidence
from .detection import find_dlrover_use

# Settings of a conf, and what the command passes to it about the previous attempt.
RESUMABLE_ARGUMENTS = ("save_secs", "keep_checkpoint_max", "has_trained", "train_data_anew", "use_conf_model_dir")


class DLRoverDialect(Dialect):
    """Modules with a conf class; see `DLRoverAdapter`."""

    needs = "a class with classifier_class, train_set and eval_set, such as DLRover's TrainConf"
    keras = "2"
    no_scaffold = "its confs require Estimators, which TensorFlow removed in 2.16"

    def detect(self, path: str) -> Evidence | None:
        """Returns where a file imports DLRover or defines a conf class; both imply an Estimator and Keras 2."""
        use = find_dlrover_use(path)
        return Evidence(*use, keras="2", uses_estimators=True) if use else None

"""The dialect of DLRover: a conf class that names an Estimator, columns, and readers.

    class TrainConf:
        classifier_class = MyEstimator        # called with (model_dir, config, params)
        model_dir = "/nas/model"
        max_steps = 1000
        train_set = {"reader": FileReader("train.csv"), "columns": (…), "batch_size": 64, "epoch": 10}
        eval_set = {"reader": FileReader("eval.csv"), "columns": train_set["columns"]}

    conf.py       the attributes of a conf, those too that DLRover documented and ignored
    columns.py    columns: which is the label, and how rows become tensors
    sources.py    where a set's rows come from, and how far they have been trained
    data.py       a set's rows as batches for the Estimator
    examples.py   tf.Examples in place of rows
    serving.py    what the exported model is fed with
    estimator.py  the Estimator that a conf names
    run.py        training, evaluation and export, put together

The names that confs import from DLRover are provided by `executors/dlrover/`.
"""

from __future__ import annotations

from types import ModuleType

from ...options import TrainingOptions
from .. import RunFn
from .conf import conf_classes, find_conf

NEEDS = "a class with classifier_class, train_set and eval_set, such as DLRover's TrainConf"


def matches(module: ModuleType, function: str | None) -> str:
    """Returns evidence when a module holds a conf class and no function of a trainer's; `function` may name it."""
    names = conf_classes(module)
    if function is not None:
        return f"{function} is a conf class" if function in names else ""
    if any(callable(getattr(module, name, None)) for name in ("run_fn", "trainer_fn")):
        return ""  # a module that grew one wants it to be used
    return f"it holds the conf {', '.join(names)}" if names else ""


def run_fn(module: ModuleType, function: str | None, options: TrainingOptions) -> RunFn:
    """Returns a `run_fn` that builds the Estimator, trains and exports it.

    Raises:
      ModuleError: When there is no conf class, or several and no name.
    """
    del options
    conf, where = find_conf(module, function)

    def run(fn_args: object) -> object:
        from .run import train  # imports TensorFlow

        return train(conf, fn_args, where)  # type: ignore[arg-type]

    return run

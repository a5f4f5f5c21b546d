"""Which dialect a loaded module speaks, and whether its functions can be called as they will be."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from .. import dialects
from ..dialects.dlrover.conf import Conf, find_conf, read_conf
from ..errors import ModuleError, did_you_mean
from ..fn_args import FnArgs
from .request import CheckRequest

# What Estimators call a model function with.
_OF_MODEL_FN = ("features", "labels", "mode", "params", "config", "self")
# Further attributes of a conf that mean something, beside the fields of Conf.
_OF_A_CONF = (
    "batch_size",
    "epoch",
    "name",
    "use_conf_model_dir",
    "enable_incr_saved_model",
    "checkpoint_incremental_save_secs",
)
# Functions that a pipeline's other steps call: (arguments, how it is written).
_OF_STEPS = {
    "preprocessing_fn": (1, "preprocessing_fn(inputs), or preprocessing_fn(inputs, custom_config)"),
    "stats_options_updater_fn": (2, "stats_options_updater_fn(stats_type, stats_options)"),
    "tuner_fn": (1, "tuner_fn(fn_args)"),
}


def dialect_of(module: ModuleType, request: CheckRequest) -> tuple[str, str]:
    """Returns the dialect's name, and why.

    Raises:
      TrainerError: When none fits, or several, or what was asked for is not installed.
    """
    known = dialects.installed()
    if request.options.dialect == "auto":
        found = {name: dialect.matches(module, request.function) for name, dialect in known.items()}
        matching = [(name, reason) for name, reason in found.items() if reason]
        if len(matching) == 1:
            return matching[0]
    name, reason, _ = dialects.choose(module, request.function, request.options, known)  # says what is wrong
    return name, reason


def run_fn_of(
    dialect: str, module: ModuleType, request: CheckRequest, of_steps: Sequence[str] = ()
) -> Callable[[FnArgs], object]:
    """Returns the module as a run_fn; a function that cannot be called as it will be is refused.

    Args:
      dialect: The module's dialect.
      module: The training module.
      request: What is checked.
      of_steps: Functions of it that other steps of the pipeline call, such as `preprocessing_fn`.

    Raises:
      TrainerError: With file, function and the form that it has to have.
    """
    run_fn = dialects.installed()[dialect].run_fn(module, request.function, request.options)
    _LOOKS.get(dialect, _run_fn)(module, request)
    require_step_functions(module, of_steps)
    return run_fn


def require_step_functions(module: ModuleType, names: Sequence[str]) -> None:
    """Makes sure that the pipeline's steps can call a module's functions; one that it lacks is left out.

    Raises:
      ModuleError: With file, function and the form that it has to have.
    """
    for name in names:
        count, form = _OF_STEPS[name]
        function = getattr(module, name, None)
        if function is not None:
            _require_call(module, name, function, count, form, optional=("custom_config",))


def signatures_shown(dialect: str, module: ModuleType, request: CheckRequest, of_steps: Sequence[str] = ()) -> str:
    """Returns the signatures that were looked at: "run_fn(fn_args), preprocessing_fn(inputs)"."""
    names = {
        "trainer_fn": ["trainer_fn"],
        "model_fn": ["model_fn", "input_fn", "train_input_fn", "eval_input_fn", "serving_input_receiver_fn"],
        "elasticdl": ["custom_model", "feed", "dataset_fn", "loss", "optimizer", "eval_metrics_fn"],
        "dlrover": [],
    }.get(dialect, ["run_fn"])
    if request.function:
        names = [request.function]
    found = [name for name in (*names, *of_steps) if callable(getattr(module, name, None))]
    return ", ".join(f"{name}{_signature(getattr(module, name))}" for name in found) or "the conf's attributes"


def warnings_of(dialect: str, module: ModuleType, request: CheckRequest) -> Iterator[str]:
    """Yields what is allowed, and probably not meant: attributes of a conf that nothing reads."""
    if dialect != "dlrover":
        return
    conf, where = find_conf(module, request.function)
    known = [*Conf.__dataclass_fields__, *_OF_A_CONF]
    for name in vars(conf):
        hint = did_you_mean(name, known)
        if not name.startswith("_") and name not in known and hint:
            yield f"{where}: nothing reads {name!r}.{hint}"


def steps_asked(dialect: str, module: ModuleType, request: CheckRequest) -> int | None:
    """Returns how many steps a run was asked to do, by its arguments or by the conf; None where nobody said."""
    if dialect == "dlrover":
        conf, where = find_conf(module, request.function)
        return read_conf(conf, request.fn_args, where).max_steps
    if dialect == "elasticdl":
        return int((request.fn_args.custom_config or {}).get("max_step") or request.fn_args.train_steps or 0) or None
    return request.fn_args.train_steps


def _run_fn(module: ModuleType, request: CheckRequest) -> None:
    """The dialect has looked at it."""


def _trainer_fn(module: ModuleType, request: CheckRequest) -> None:
    name = request.function or "trainer_fn"
    _require_call(module, name, getattr(module, name), 2, "trainer_fn(fn_args, schema)")


def _model_fn(module: ModuleType, request: CheckRequest) -> None:
    name = request.function or "model_fn"
    function = getattr(module, name, None)
    if not inspect.isfunction(function):
        return
    parameters = inspect.signature(function).parameters.values()
    odd = [
        one.name
        for one in parameters
        if one.name not in _OF_MODEL_FN and one.default is one.empty and one.kind is not one.VAR_KEYWORD
    ]
    if odd:
        raise ModuleError(
            f"{module.__file__}: {name}{inspect.signature(function)} has the parameter {odd[0]!r}, which an Estimator "
            f"does not give.{did_you_mean(odd[0], _OF_MODEL_FN)} "
            f"Write it as def {name}(features, labels, mode, params)."
        )


def _elasticdl(module: ModuleType, request: CheckRequest) -> None:
    from ..dialects.elasticdl.options import ElasticDLOptions
    from ..dialects.elasticdl.parts import Parts

    options = ElasticDLOptions.of(request.fn_args)
    Parts(module, request.function, options).require()
    _require_call(module, options.loss, getattr(module, options.loss, None), 2, "loss(labels, predictions)")
    optimizer = getattr(module, options.optimizer, None)
    if inspect.isroutine(optimizer):
        _require_call(module, options.optimizer, optimizer, 0, "optimizer(), with defaults for what it takes")


def _dlrover(module: ModuleType, request: CheckRequest) -> None:
    conf, where = find_conf(module, request.function)
    read_conf(conf, request.fn_args, where)


_LOOKS: dict[str, Callable[[ModuleType, CheckRequest], None]] = {
    "trainer_fn": _trainer_fn,
    "model_fn": _model_fn,
    "elasticdl": _elasticdl,
    "dlrover": _dlrover,
}


def _require_call(
    module: ModuleType, name: str, function: Any, count: int, form: str, optional: tuple[str, ...] = ()
) -> None:
    """Makes sure that a function can be called with so many positional arguments.

    Raises:
      ModuleError: With its signature and the form that it has to have.
    """
    if not callable(function):
        raise ModuleError(f"{module.__file__}: {name} is {function!r}; write it as def {form}.")
    try:
        signature = inspect.signature(function)
    except ValueError:  # a callable in C
        return
    more = {one: object() for one in optional if one in list(signature.parameters)[count:]}
    try:
        signature.bind(*[object()] * count, **more)
    except TypeError as error:
        raise ModuleError(
            f"{module.__file__}: {name}{_signature(function)} cannot be called as it will be ({error}). Write it as "
            f"def {form}."
        ) from None


def _signature(function: Any) -> str:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return "(…)"
    return f"({', '.join(str(one.replace(annotation=one.empty)) for one in parameters)})"

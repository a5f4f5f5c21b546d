"""What a module has written: collects it from the staging directory, checks and publishes it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..runtime.files import durable, file_io
from ..runtime.process.preemption import deferred_signals
from ..runtime.process.termination import raise_if_ended
from ..saved_models.check import check_saved_model, log_report
from ..saved_models.finished import FILE_NAME as FINISHED
from ..saved_models.locations import OTHER_MODELS, lift_timestamped_model
from ..saved_models.publishing import publish
from ..saved_models.readable_files import replace_links
from .callbacks import CHECK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..fn_args import FnArgs
    from ..monitoring.run_json import CheckReport
    from ..options import TrainingOptions
    from .callbacks import Callbacks
    from .run_state import Run


def collect_and_check(run: Run, around: Callbacks) -> tuple[str, list[str]]:
    """Moves and checks the module's outputs; returns their folder and the names in it before the check."""
    run.check_parts, run.reports = {}, {}
    with around(CHECK, run):
        replace_links(run.staging.written)
        outputs = run.staging.take_outputs()
        names = [name for name in file_io.listdir(outputs) if name != FINISHED] if file_io.isdir(outputs) else []
        args = run.args_in(outputs)
        lift_timestamped_model(args.serving_model_dir)
        _check(run, args)
    return outputs, names


def check_model(args: FnArgs, options: TrainingOptions, **others: Any) -> CheckReport:
    """Checks the model in `args.serving_model_dir`; `others` are further arguments of `check_saved_model`."""
    return check_saved_model(
        args.serving_model_dir,
        args.eval_files or (),
        examples_format=args.examples_format,
        schema_path=args.schema_path,
        transform_graph_path=args.transform_graph_path,
        required_signatures=options.required_signatures,
        skip=options.skip_checks,
        **others,
    )


def _check(run: Run, args: FnArgs) -> None:
    of_training = run.result.parts
    process: dict[str, Any] = {
        "op_packages": of_training.get("op_packages", {}),
        "environment": run.keras.environment(),
        "timeout": run.options.timeout,
    }
    report = check_model(
        args,
        run.options,
        raw_eval_files=run.raw_eval_files,
        shown_as=run.fn_args.serving_model_dir,
        example=of_training.get("sample_input"),
        parts=run.check_parts,
        **process,
    )
    others = os.path.join(file_io.parent(args.serving_model_dir), OTHER_MODELS)
    for name in file_io.listdir(others) if file_io.isdir(others) else ():
        folder = os.path.join(others, name)
        run.reports[folder] = check_saved_model(folder, skip=run.options.skip_checks, **process)
    run.reports[args.serving_model_dir] = report
    run.record.check = report.to_json()
    log_report(report)


def publish_outputs(run: Run, outputs: str, names: Sequence[str]) -> None:
    """Moves the outputs to their final paths; the run has succeeded then."""
    run.record.require_folder()
    durable.sync_tree(outputs)  # here, as it takes long on a slow disk, and signals are deferred below
    with deferred_signals(repeated=True):
        raise_if_ended()
        publish(run.staging.path, outputs, list(names), run.fn_args.serving_model_dir)
        run.succeed()

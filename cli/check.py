"""`generic-trainer check MODULE`: preflight check of a run, in seconds."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from typing import Any

import click

from ..executors.errors import InputError, TrainerError
from ..executors.evaluation.overrides import options_except_label
from ..executors.inputs.csv.plain_copy import plain_data
from ..executors.modules.pipeline_modules import find_modules
from ..executors.number_range import SECONDS
from ..executors.preflight import stamp
from ..executors.preflight.check import check as check_run
from ..executors.preflight.request import LIMIT, CheckRequest
from ..executors.preflight.verdicts import Verdict
from ..pipelines.definition.options import has_tuner_step
from ..pipelines.definition.pipeline_root import PLAIN_DATA, convert_data_in_root
from .fn_args_flags import fn_args_flags, fn_args_of
from .number_type import NumberType
from .path_type import DIR, MODULE_NAME, PLACE
from .pipeline_flags import evaluation_flags, input_flags, module_flags
from .tables import print_line
from .training_flags import custom_config_flag, options_from, parse_custom_config, training_flags
from .verdict_format import format_summary, format_verdict

_NOT_REACHED_CODE = 4


@click.command()
@click.argument("module", type=MODULE_NAME)
@fn_args_flags
@click.option("--data", default="", type=PLACE, help="Raw data, as for `run`; replaces --train-files and --eval-files.")
@click.option("--output", type=DIR, help="Accepted as in `train`; nothing is written there.")
@module_flags
@click.option(
    "--pipeline-root",
    default="",
    type=DIR,
    help="Pipeline root to record a passed check in; `run` then skips the same check.",
)
@click.option(
    "--limit",
    default=LIMIT,
    show_default=True,
    type=NumberType(SECONDS),
    help="Timeout in seconds of each stage: load, read, train.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
@click.option("--strict", is_flag=True, help="Exit with code 4 if nothing failed, but a part could not be checked.")
@input_flags
@evaluation_flags
@custom_config_flag
@training_flags
def check(module: str, as_json: bool, strict: bool, **flags: Any) -> None:
    """Checks in seconds whether a run of MODULE would succeed.

    Loads the module, inspects its functions and all files, reads a few real examples, trains a few steps, evaluates,
    exports, and applies the model checks of `train`. Estimates the time and memory of a run of --train-steps. Without
    examples, synthetic ones are generated from the --schema. Keeps no outputs.

    \b
    Examples:
      generic-trainer check iris_keras.py --train-files 'iris/train*' --eval-files 'iris/eval*' --train-steps 300
      generic-trainer check taxi_keras.py --data taxi/ --label big_tip
    """  # noqa: D301 (click's mark of lines to keep)
    sys.path.insert(0, os.getcwd())  # as `python -m package.module` does
    root = flags.pop("pipeline_root")
    verbose = bool(click.get_current_context().find_root().params.get("verbose"))
    scratch = click.get_current_context().with_resource(tempfile.TemporaryDirectory(prefix="generic-trainer-"))
    if flags["data"]:
        # As a pipeline does first, into its root if that is given.
        plain = os.path.join(scratch, PLAIN_DATA)
        flags["data"], changes = convert_data_in_root(flags["data"], root) if root else plain_data(flags["data"], plain)
        for change in [] if as_json else changes:
            print_line(change)
    request = make_request(module, flags, scratch)

    def show(verdict: Verdict) -> None:
        if not as_json:
            click.echo("\n".join(format_verdict(verdict, verbose)))

    report = check_run(request, show)
    if as_json:
        state = report.to_json()
        for verdict in state["verdicts"]:
            verdict.pop("error", None)  # a serialized exception for other processes; the traceback remains
        click.echo(json.dumps(state, indent=2))
    else:
        click.echo(format_summary(report))
    if root and report.passed:
        stamp.note(root, stamp.fingerprint(request, root), report.findings)
    if not report.passed:
        raise click.exceptions.Exit(report.exit_code)
    if strict and report.not_reached:
        raise click.exceptions.Exit(_NOT_REACHED_CODE)


def make_request(module: str, flags: dict[str, Any], scratch: str) -> CheckRequest:
    """Builds the check request from the flags; an unreadable custom_config becomes a verdict instead of an error."""
    problems: dict[str, str] = {}
    config = None
    try:
        config = parse_custom_config(flags.pop("custom_config"))
    except InputError as error:
        problems["custom_config"] = str(error)
    options = options_from(flags)
    fn_args = fn_args_of(flags, custom_config=config, seed=options.seed)
    hyperparameters = flags["hyperparameters"] or ""
    if flags["data"] and flags["train_files"]:
        raise InputError("--data and --train-files: give one of them.")
    modules = None
    with contextlib.suppress(TrainerError):  # the check reports it
        modules = find_modules(module, scratch, flags["transform_module"], flags["tuner_module"])
    return CheckRequest(
        module,
        fn_args,
        options,
        function=flags["function"],
        data=flags["data"],
        label=flags["label"],
        evaluation=options_except_label(flags),
        hyperparameters=hyperparameters,
        transform_module=flags["transform_module"],
        tuner_module=flags["tuner_module"],
        tunes=modules is not None and bool(flags["data"]) and has_tuner_step(modules, None, 0, hyperparameters),
        base_model=flags["base_model"] or "",
        train_examples=flags["train_examples"],
        schema_shapes=flags["schema_shapes"],
        problems=problems,
        limit=flags["limit"],
        modules=modules,
    )

"""`generic-trainer init DIR --data FILE`: generates a training module for a dataset, with configuration and test."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..executors.dialects import installed
from ..executors.errors import InputError, did_you_mean
from ..executors.inputs.csv.plain_copy import plain_data
from ..pipelines.definition.pipeline_root import PLAIN_DATA
from .path_type import DIR, PLACE
from .tables import print_line, print_table

if TYPE_CHECKING:
    from ..pipelines.scaffold.labels import Label
    from ..pipelines.scaffold.planning import Plan

_TEST_SPLIT_ROWS = 1000  # with fewer rows, training needs all of them


@click.command()
@click.argument("directory", metavar="DIR", type=DIR)
@click.option(
    "--data",
    required=True,
    type=PLACE,
    help="CSV or Parquet file, TFRecord file of tf.Examples, or a directory of them.",
)
@click.option(
    "--label", default="", metavar="NAME", help="Column to predict (default: a column with a common label name)."
)
@click.option(
    "--task", type=click.Choice(["auto", "binary", "multiclass", "regression"]), default="auto", show_default=True,
    help="Prediction task; auto derives it from the label's values.",
)  # fmt: skip
@click.option("--dialect", default="run_fn", show_default=True, metavar="NAME", help="Dialect of the new module.")
@click.option(
    "--test-split/--no-test-split",
    default=None,
    help="Evaluate on a fifth of the data that training does not see (default: from 1,000 rows on).",
)
@click.option(
    "--split-by-time", default="", metavar="NAME",
    help="Column with times: copies the data to train/, eval/ and test/, the newest rows in test/.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Write into a non-empty directory; files of the same name are overwritten.")
def init(
    directory: str,
    data: str,
    label: str,
    task: str,
    dialect: str,
    test_split: bool | None,
    split_by_time: str,
    force: bool,
) -> None:
    """Creates a training module for a dataset in DIR.

    Also writes a configuration for `run` and a test.

    \b
    Example:
      generic-trainer init taxi --data trips.csv --label tips
      cd taxi && generic-trainer run --config pipeline.yaml
    """  # noqa: D301 (click's mark of lines to keep)
    known = installed()
    if dialect not in known:
        raise InputError(
            f"--dialect {dialect} is not installed; choose from {', '.join(sorted(known))}."
            f"{did_you_mean(dialect, known)}"
        )
    if reason := known[dialect].no_scaffold:
        raise InputError(
            f"--dialect {dialect}: init generates no modules for this dialect: {reason}. Existing modules run "
            "unchanged. Omit --dialect to generate a module with a run_fn."
        )
    from ..pipelines.scaffold import time_split
    from ..pipelines.scaffold.column_statistics import analyze_columns
    from ..pipelines.scaffold.labels import require_column
    from ..pipelines.scaffold.planning import make_plan
    from ..pipelines.scaffold.project import make_project, make_sample
    from ..pipelines.scaffold.reading import is_split, read_data
    from ..pipelines.scaffold.writing import (
        converted_files,
        render_files,
        require_empty_folder,
        scratch_folder_near,
        write_project,
    )

    require_empty_folder(directory, force)
    with scratch_folder_near(directory) as scratch:
        plain, changes = plain_data(data, os.path.join(scratch, PLAIN_DATA))
        for change in changes:
            print_line(change)
        raw = dataclasses.replace(read_data(plain), path=data)
        require_column(label, raw)
        amount = f"{raw.size:,} rows"
        if not raw.is_whole:
            amount = f"the first {raw.size:,} rows (the pipeline reads all of them)"
        print_line(f"{raw.path}: {amount}, {len(raw.columns)} columns")
        plan = make_plan(raw, analyze_columns(raw), label, task)
        copy = os.path.join(directory, os.path.relpath(plain, scratch)) if changes else ""
        copies = converted_files(scratch)
        if split_by_time:
            if test_split is not None:
                raise InputError("--split-by-time always makes a test split: omit --test-split and --no-test-split.")
            copies = time_split.split_by_time(plan, split_by_time, os.path.join(scratch, "splits"))
            copy = os.path.join(directory, time_split.FOLDER)
        elif test_split is None:
            test_split = raw.size >= _TEST_SPLIT_ROWS and not is_split(plain)
        project = make_project(directory, plan, copy or data, test_split=bool(test_split))
        files: dict[str, bytes | Path] = {**render_files(project, plan), **copies, project.sample: make_sample(plan)}
        _print_plan(plan)
        write_project(directory, files, force=force)
    _print_next_steps(directory, project.module, sorted(files))


def _print_plan(plan: Plan) -> None:
    """Prints a table of the columns with their preprocessing, and the task."""
    label, numbers = plan.label, ("Missing", "Values")
    rows = [
        [role.column.name, role.column.kind, _count(role.column.missing), _count(role.column.distinct), role.why]
        for role in plan.roles
    ]
    description = f"label ({label.why})" if label.why else "label"
    rows.append([label.column.name, label.column.kind, "", _count(label.column.distinct), description])
    print_table(["Column", "Type", *numbers, "Preprocessing"], rows, right=numbers)
    print_line(f"Task: {_task(label)}")
    if label.warning:
        print_line(label.warning)


def _count(number: int) -> str:
    return f"{number:,}" if number else ""


def _task(label: Label) -> str:
    if not label.classes:
        return "regression"
    names = ", ".join(map(str, label.classes[:10])) + (", …" if len(label.classes) > 10 else "")
    positive = f"; {label.classes[1]} is the positive class" if label.task == "binary" else ""
    return f"{label.task} classification: {names}{positive}"


def _print_next_steps(directory: str, module: str, files: Sequence[str]) -> None:
    click.echo(f"Written to {directory}: {', '.join(files)}")
    click.echo("Next:")
    if os.path.abspath(directory) != os.getcwd():
        click.echo(f"  cd {shlex.quote(directory)}")
    click.echo("  generic-trainer check --config pipeline.yaml")
    click.echo("  generic-trainer run --config pipeline.yaml")
    click.echo(f"  pytest test_{module}.py")

"""A module's output is kept if it is not published, and everything that reports the run names its path."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import (
    FnArgs,
    ModelCheckError,
    StorageError,
    TrainingOptions,
    train,
)
from generic_trainer.executors.monitoring import run_record
from generic_trainer.executors.monitoring.run_record import RunRecord
from generic_trainer.executors.saved_models import publishing, rejected
from generic_trainer.executors.saved_models.rejected import Unpublished, keep_unpublished
from generic_trainer.executors.saved_models.staging import staging_directory

HERE = TrainingOptions(isolate=False)
MEMORY = "/dev/shm"  # noqa: S108 (another file system)
PICKLES = """
    import os, pickle

    def run_fn(fn_args):
        os.makedirs(fn_args.serving_model_dir)
        with open(os.path.join(fn_args.serving_model_dir, "model.pkl"), "wb") as file:
            pickle.dump([1, 2, 3], file)
"""


def kept(fn_args: FnArgs) -> list[pathlib.Path]:
    folder = pathlib.Path(str(fn_args.model_run_dir), "rejected")
    return sorted(folder.iterdir()) if folder.exists() else []


@pytest.mark.thorough
def test_a_pickle_in_place_of_a_model_is_kept_and_the_command_names_it(
    command: Callable[..., Any], module: Callable[..., str], iris: Any, tmp_path: pathlib.Path
) -> None:
    out = tmp_path / "out"
    done = command("train", module(PICKLES), "--train-files", iris.train, "--output", out)
    assert done.returncode == 3
    [folder] = (out / "model_run" / "rejected").iterdir()
    assert (folder / "Format-Serving" / "model.pkl").read_bytes().startswith(b"\x80")
    assert f"The module's outputs are kept in {folder}." in done.stderr.replace("\n", " ")
    assert str(folder) in (out / "model_run" / "report.html").read_text()
    shown = command("show", out)
    assert f"Rejected:     {folder}" in shown.stdout
    assert list((out / "model").iterdir()) == []


@pytest.mark.parametrize(
    "body",
    [
        "open(fn_args.serving_model_dir, 'w').write('a file')",
        "os.symlink('nowhere', fn_args.serving_model_dir)",
        "open(os.path.join(os.path.dirname(fn_args.serving_model_dir), 'model.txt'), 'w').write('beside')",
    ],
    ids=["file", "dangling link", "beside"],
)
def test_any_output_in_place_of_a_model_is_kept(body: str, module: Callable[..., str], fn_args: FnArgs) -> None:
    with pytest.raises(ModelCheckError) as caught:
        train(module(f"import os\ndef run_fn(fn_args):\n    {body}\n"), fn_args, HERE)
    [folder] = kept(fn_args)
    assert len(os.listdir(folder)) == 1
    assert str(folder) in str(caught.value)


def test_a_model_that_cannot_be_published_is_kept(
    tiny_module: str, fn_args: FnArgs, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf

    def refuse(*arguments: object) -> None:
        raise StorageError(28, "No space left on device", str(fn_args.serving_model_dir))

    monkeypatch.setattr(publishing, "_move_into_place", refuse)
    with pytest.raises(StorageError) as caught:
        train(tiny_module, fn_args, HERE)
    [folder] = kept(fn_args)
    [note] = caught.value.__notes__
    assert note.startswith(f"The module's outputs are kept in {folder}. Run the same command again: ")
    assert tf.saved_model.load(str(folder / "Format-Serving")).signatures


def test_the_last_three_rejected_outputs_are_kept(module: Callable[..., str], fn_args: FnArgs) -> None:
    path = module(PICKLES)
    for _ in range(rejected.KEPT + 2):
        with pytest.raises(ModelCheckError):
            train(path, fn_args, HERE)
    assert len(kept(fn_args)) == rejected.KEPT


@pytest.mark.skipif(not os.path.isdir(MEMORY), reason="there is no second file system")
def test_it_is_kept_on_another_disk_with_its_links(tmp_path: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as other:
        record = RunRecord(started="2026-11-23T15:30:00.123+00:00", phases={"training/run_fn": 1.0})
        with staging_directory(str(tmp_path)) as staging:
            os.makedirs(f"{staging.written}/Format-Serving")
            os.symlink("nowhere", f"{staging.written}/Format-Serving/link")
            outputs = Unpublished(staging, "Format-Serving", other, record)
            with pytest.raises(ValueError, match="no model") as caught, keep_unpublished(outputs, lambda: None):
                raise ValueError("no model")
        assert record.rejected == f"{other}/rejected/20261123T153000Z-{record.id[:8]}"
        assert os.readlink(f"{record.rejected}/Format-Serving/link") == "nowhere"
        assert caught.value.__notes__ == [f"The module's outputs are kept in {record.rejected}."]
        assert os.listdir(f"{other}/rejected") == [os.path.basename(record.rejected)]


def test_a_module_without_outputs_leaves_nothing(module: Callable[..., str], fn_args: FnArgs) -> None:
    with pytest.raises(ModelCheckError) as caught:
        train(module("def run_fn(fn_args): pass"), fn_args, HERE)
    assert kept(fn_args) == []
    assert "is kept in" not in str(caught.value)


def test_a_model_that_was_complete_when_the_module_raised_is_kept(
    command: Callable[..., Any], module: Callable[..., str], tiny_source: str, iris: Any, tmp_path: pathlib.Path
) -> None:
    import tensorflow as tf

    fails = "    report_progress(1, metrics={'loss': 0.5})\n    raise KeyError('plot')\n"
    path, out = module(f"from generic_trainer import report_progress\n{tiny_source}{fails}"), tmp_path / "out"
    done = command("train", path, "--train-files", iris.train, "--output", out)
    assert done.returncode == 1
    [folder] = (out / "model_run" / "rejected").iterdir()
    assert tf.saved_model.load(str(folder / "Format-Serving")).signatures
    assert f"had saved a complete model, which passes the check. It is kept in {folder}." in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"generic-trainer: failed: KeyError: 'plot' ({path}:")
    record = run_record.read(str(out / "model_run"))
    assert (record.status, record.rejected, (record.error or {}).get("type")) == ("failed", str(folder), "KeyError")
    assert record.check["checks"]["loads"] == "passed"
    assert record.metrics == {"train": {"loss": 0.5}}
    assert f"Complete model, not published: {folder}" in command("show", out).stdout
    assert "Unpublished model (complete)" in (out / "model_run" / "report.html").read_text()
    assert list((out / "model").iterdir()) == []


@pytest.mark.parametrize("lost", ["saved_model.pb", "variables/variables.index"])
def test_a_half_written_model_of_a_module_that_raised_is_not_called_complete(
    lost: str, module: Callable[..., str], tiny_source: str, fn_args: FnArgs
) -> None:
    fails = f"    os.remove(os.path.join(fn_args.serving_model_dir, {lost!r}))\n    raise KeyError('disk')\n"
    with pytest.raises(KeyError) as caught:
        train(module(f"import os\n{tiny_source}{fails}"), fn_args, HERE)
    assert kept(fn_args) == []
    record = run_record.read(str(fn_args.model_run_dir))
    assert (record.rejected, record.check) == ("", {})
    assert not any("complete" in note for note in getattr(caught.value, "__notes__", ()))


def test_an_interrupt_keeps_the_saved_model_unchecked(
    module: Callable[..., str], tiny_source: str, fn_args: FnArgs
) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        train(module(f"{tiny_source}    raise KeyboardInterrupt\n"), fn_args, HERE)
    [folder] = kept(fn_args)
    assert f"saved a model, which was not checked. It is kept in {folder}." in caught.value.__notes__[0]
    assert run_record.read(str(fn_args.model_run_dir)).check == {}

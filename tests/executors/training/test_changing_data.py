"""Data that change while a model is trained on them are named, and the run is not taken for one of the new content."""

from __future__ import annotations

import json
import logging
import pathlib
import shutil
from collections.abc import Callable

import pytest

from generic_trainer import FnArgs, TrainingOptions, train

CUT = """
    import glob, os
    for path in glob.glob(fn_args.train_files[0]):
        os.truncate(path, {size})
"""


@pytest.fixture
def own_data(fn_args: FnArgs, tmp_path: pathlib.Path) -> FnArgs:
    """The arguments with data that the test may change: three training files."""
    for split in ("train", "eval"):
        [source] = pathlib.Path(fn_args[f"{split}_files"][0]).parent.iterdir()
        (tmp_path / split).mkdir()
        for number in range(3 if split == "train" else 1):
            shutil.copy(source, tmp_path / split / f"part-{number}.gz")
        fn_args[f"{split}_files"] = [f"{tmp_path}/{split}/*"]
    return fn_args


@pytest.mark.parametrize("raises", [False, True])
def test_changed_data_are_named_and_recorded(
    own_data: FnArgs, module: Callable[..., str], tiny_source: str, caplog: pytest.LogCaptureFixture, raises: bool
) -> None:
    folder = pathlib.Path(own_data.train_files[0]).parent
    before = train(module(tiny_source, "first.py"), own_data, TrainingOptions(isolate=False))
    assert not before.parts["changed_data"]
    source = tiny_source + CUT.format(size=10) + "    raise ValueError('a record is cut off')\n" * raises
    path = module(source, "second.py")
    if raises:
        with pytest.raises(ValueError, match="a record is cut off"):
            train(path, own_data, TrainingOptions(isolate=False))
    else:
        train(path, own_data, TrainingOptions(isolate=False))
    record = json.loads(pathlib.Path(own_data.model_run_dir, "run.json").read_text())
    assert [change.partition(" (")[0] for change in record["changed_data"]] == sorted(map(str, folder.iterdir()))
    assert record["changed_data"][0].endswith("to 10 B)")
    assert record["data"] == before.parts["data"]  # of the beginning
    [warning] = [each.getMessage() for each in caplog.records if "changed while the model was trained" in each.message]
    assert warning.count(str(folder)) == 3


def test_a_run_does_not_resume_for_the_content_that_its_data_got_meanwhile(
    own_data: FnArgs, module: Callable[..., str], tiny_source: str, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = (
        "    if not os.path.exists(os.path.join(fn_args.checkpoint_dir, 'mine')):\n"
        "        os.makedirs(fn_args.checkpoint_dir, exist_ok=True)\n"
        "        open(os.path.join(fn_args.checkpoint_dir, 'mine'), 'w').close()\n"
    )
    path = module(tiny_source + CUT.format(size=10) + checkpoint, "resumed.py")
    for expected in (0, 1):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            train(path, own_data, TrainingOptions(isolate=False))
        assert caplog.text.count("belong to a different training: data of train_files. They were moved") == expected

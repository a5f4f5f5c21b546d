"""A pipeline trains again exactly when the content of data, module or schema has changed, or an output is damaged."""

from __future__ import annotations

import dataclasses
import logging
import os
import pathlib
import shutil
from collections.abc import Callable

import pytest

from generic_trainer import TrainingOptions
from generic_trainer.executors.runtime.files.content_digests import FILE_NAME as DIGESTS
from generic_trainer.executors.saved_models.pushed_models import already_pushed
from generic_trainer.pipelines.definition.pipeline_root import ROOT_MARKER
from generic_trainer.pipelines.local import LocalPipeline, Outcome, run_pipeline
from generic_trainer.pipelines.local.cached_outputs import FILE_NAME as OUTPUTS
from generic_trainer.pipelines.local.cached_outputs import OUTPUTS_WITHOUT_METADATA

HELPER = """
import tensorflow as tf

OFFSET = 1.0


def save(path):
    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
        def predict(self, x):
            return {"sum": x + self.offset}

    model = Model()
    model.offset = tf.Variable(OFFSET)
    tf.saved_model.save(model, path, signatures=model.predict)
"""
MODULE = """
import helper


def run_fn(fn_args):
    helper.save(fn_args.serving_model_dir)
"""
CHANGING = """
    import glob, os
    if os.environ.get("CHANGE_EXAMPLES"):
        for path in glob.glob(fn_args.train_files[0]):
            os.truncate(path, os.path.getsize(path) - 1)
"""
SCHEMA = """
feature { name: "x" type: FLOAT presence { min_fraction: 1 } }
feature { name: "y" type: INT presence { min_fraction: 1 } int_domain { max: 1 } }
"""


@dataclasses.dataclass
class Project:
    """A folder with data, a training module, a schema and a pipeline root."""

    folder: pathlib.Path

    def __post_init__(self) -> None:
        (self.folder / "data").mkdir(parents=True)
        self.data.write_text("x,y\n" + "".join(f"{number / 10},{number % 2}\n" for number in range(200)))
        (self.folder / "module.py").write_text(MODULE)
        self.helper.write_text(HELPER)
        self.schema.write_text(SCHEMA)

    @property
    def data(self) -> pathlib.Path:
        return self.folder / "data" / "data.csv"

    @property
    def helper(self) -> pathlib.Path:
        return self.folder / "helper.py"

    @property
    def schema(self) -> pathlib.Path:
        return self.folder / "schema.pbtxt"

    @property
    def root(self) -> pathlib.Path:
        return self.folder / "pipeline"

    def run(self, written: str = "") -> Outcome:
        """Runs the pipeline; `written` is the project's folder as the user writes it."""
        folder = written or str(self.folder)
        options = LocalPipeline(
            os.path.join(folder, "data") + "/" * folder.endswith("/"),
            os.path.join(folder, "module.py"),
            pipeline_root=os.path.join(folder, "pipeline"),
            schema=os.path.join(folder, "schema.pbtxt"),
            training=TrainingOptions(isolate=False),
            runner="local",
        )
        return run_pipeline(options)


def trained(outcome: Outcome) -> bool:
    return "Trainer" not in outcome.cached


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose pipeline has run."""
    project = Project(tmp_path_factory.mktemp("cache") / "project")
    assert trained(project.run())
    return project


def edit(path: pathlib.Path, change: Callable[[str], str]) -> None:
    """Changes a file in place and restores its times, as `cp -p`, `rsync -t` and archives do."""
    status = path.stat()
    path.write_text(change(path.read_text()))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def flip_labels(project: Project) -> None:
    lines = project.data.read_text().splitlines()
    edit(
        project.data, lambda text: "\n".join([lines[0], *(f"{line[:-1]}{1 - int(line[-1])}" for line in lines[1:]), ""])
    )
    assert len(project.data.read_text().splitlines()) == len(lines)


def replace_by_copy(path: pathlib.Path) -> None:
    shutil.copyfile(path, copy := path.with_name(".copy"))
    copy.replace(path)


def move_behind_link(project: Project) -> None:
    folder = project.data.parent
    folder.rename(moved := folder.with_name("moved"))
    folder.symlink_to(moved)


def link_to_other_content(project: Project) -> None:
    edit(project.data, lambda text: text.replace("10.1,1", "10.3,1"))
    move_behind_link(project)


CHANGES = {
    "labels flipped, times restored": flip_labels,
    "one value in the middle, times restored": lambda it: edit(it.data, lambda text: text.replace("10.1,1", "10.2,1")),
    "a row appended": lambda it: edit(it.data, lambda text: f"{text}9.9,1\n"),
    "cut": lambda it: edit(it.data, lambda text: text[: text.index("10.1,1")]),
    "a second file": lambda it: shutil.copy(it.data, it.data.with_name("more.csv")),
    "a second file without rows": lambda it: it.data.with_name("more.csv").write_text("x,y\n"),
    "behind a link to other content": link_to_other_content,
    "a comment in the helper": lambda it: edit(it.helper, lambda text: f"# an edit\n{text}"),
    "helper of equal size, times restored": lambda it: edit(it.helper, lambda text: text.replace("1.0", "2.0")),
    "module": lambda it: edit(it.folder / "module.py", lambda text: f"# an edit\n{text}"),
    "schema of equal size, times restored": lambda it: edit(it.schema, lambda text: text.replace("max: 1", "max: 9")),
}
NO_CHANGES = {
    "nothing": lambda it: None,
    "data touched": lambda it: os.utime(it.data),
    "times of data in the past": lambda it: os.utime(it.data, (1, 1)),
    "mode of data": lambda it: it.data.chmod(0o600),
    "a hard link to data": lambda it: os.link(it.data, it.folder / "link"),
    "data replaced by a copy": lambda it: replace_by_copy(it.data),
    "data behind a link": move_behind_link,
    "another kind of file beside the data": lambda it: it.data.with_name("README.md").write_text("Ours."),
    "module and helper touched": lambda it: [os.utime(it.folder / name) for name in ("module.py", "helper.py")],
    "helper replaced by a copy": lambda it: replace_by_copy(it.helper),
    "another module beside it": lambda it: (it.folder / "other.py").write_text("X = 1\n"),
    "schema touched": lambda it: os.utime(it.schema),
    "the known digests deleted": lambda it: (it.root / DIGESTS).unlink(),
    "the known digests garbled": lambda it: (it.root / DIGESTS).write_text("[}"),
    "data file renamed": lambda it: it.data.rename(it.data.with_name("renamed.csv")),
    "time of data in the future": lambda it: os.utime(it.data, (4e9, 4e9)),
    "an unread file beside the module": lambda it: (it.folder / "notes.txt").write_text("Ours."),
    "the known digests of another kind": lambda it: (it.root / DIGESTS).write_text('{"/a": {"stamp": 1}}'),
    "the record of outputs garbled": lambda it: (it.root / OUTPUTS).write_text('{"a": 1}'),
    "the record of outputs a list": lambda it: (it.root / OUTPUTS).write_text("[]"),
    "the marker of the root empty": lambda it: (it.root / ROOT_MARKER).write_text(""),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "is_change"),
    [
        *(pytest.param(change, True, id=name) for name, change in CHANGES.items()),
        *(pytest.param(change, False, id=name) for name, change in NO_CHANGES.items()),
    ],
)
@pytest.mark.thorough_but("labels flipped, times restored", "data touched", "schema of equal size, times restored")
def test_content_decides_whether_the_pipeline_trains_again(
    project: Project, change: Callable[[Project], object], is_change: bool, tmp_path: pathlib.Path
) -> None:
    shutil.copytree(project.folder, tmp_path / "kept", ignore=shutil.ignore_patterns("pipeline"))
    change(project)
    try:
        assert trained(project.run()) == is_change
    finally:
        project.root.rename(tmp_path / "kept" / "pipeline")
        shutil.rmtree(project.folder)
        shutil.move(tmp_path / "kept", project.folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("working_folder", "written"),
    [
        pytest.param("project", ".", id="from its own folder"),
        pytest.param(".", "project", id="from the folder above"),
        pytest.param("project/data", "../../project/./", id="with dots and slashes"),
        pytest.param(".", "link", id="through a link"),
    ],
)
@pytest.mark.thorough_but("from its own folder", "from the folder above")
def test_the_cache_does_not_depend_on_how_paths_are_written(
    project: Project, monkeypatch: pytest.MonkeyPatch, working_folder: str, written: str
) -> None:
    if written == "link":
        (project.folder.parent / "link").symlink_to(project.folder)
    monkeypatch.chdir(project.folder.parent / working_folder)
    assert not trained(project.run(written))


@pytest.mark.slow
@pytest.mark.parametrize("is_copy", [False, True], ids=["moved", "copied"])
@pytest.mark.thorough_but("copied")
def test_a_project_in_another_folder_is_unchanged_and_uses_its_own_outputs(
    project: Project, tmp_path: pathlib.Path, is_copy: bool
) -> None:
    other = Project(tmp_path / "other")
    shutil.rmtree(other.folder)
    shutil.copytree(project.folder, other.folder, symlinks=True)
    kept = project.folder.rename(tmp_path / "kept")
    try:
        if is_copy:
            shutil.copytree(kept, project.folder, symlinks=True)
        outcome = other.run()
        assert not trained(outcome)
        assert str(outcome.model).startswith(str(other.folder))
    finally:
        shutil.rmtree(project.folder, ignore_errors=True)
        kept.rename(project.folder)


@pytest.mark.slow
def test_content_that_is_restored_takes_its_model_from_the_cache_and_pushes_it(tmp_path: pathlib.Path) -> None:
    project = Project(tmp_path / "project")
    first = project.run()
    before = project.helper.read_text()
    project.helper.write_text(before.replace("1.0", "2.0"))
    second = project.run()
    project.helper.write_text(before)
    third = project.run()
    assert (trained(second), trained(third)) == (True, False)
    assert first.model == third.model != second.model
    assert first.pushed_model != third.pushed_model  # the version of the second run is newer than the first's
    assert already_pushed(f"{third.model}/Format-Serving", str(project.root / "serving")) == third.pushed_model


@pytest.mark.slow
@pytest.mark.thorough
def test_a_pipeline_whose_metadata_were_deleted_starts_again(tmp_path: pathlib.Path) -> None:
    project = Project(tmp_path / "project")
    model = pathlib.Path(str(project.run().model))
    (project.root / "metadata.sqlite").unlink()
    assert trained(outcome := project.run())
    assert [path.name for path in model.parent.iterdir()] == [pathlib.Path(str(outcome.model)).name]  # `latest`
    assert (project.root / f"{OUTPUTS_WITHOUT_METADATA}/1/{model.relative_to(project.root)}/Format-Serving").is_dir()
    assert not trained(project.run())


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose pipeline has run, for tests that damage its newest outputs."""
    project = Project(tmp_path_factory.mktemp("damaged") / "project")
    project.run()
    return project


def cut(path: pathlib.Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def garble(path: pathlib.Path) -> None:
    """Changes a byte in the middle; size and times stay."""
    content, status = bytearray(path.read_bytes()), path.stat()
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def empty(path: pathlib.Path) -> None:
    path.write_bytes(b"")


def duplicate(path: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(shutil.copy(path, path.with_name("copy-of-it")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("output", "name", "damage"),
    [
        pytest.param("CsvExampleGen/examples", "Split-train/*", cut, id="examples"),
        pytest.param("StatisticsGen/statistics", "Split-eval/*", garble, id="statistics"),
        pytest.param("ImportSchemaGen/schema", "*", pathlib.Path.unlink, id="schema"),
        pytest.param("Trainer/model", "Format-Serving/variables/*data*", garble, id="variables"),
        pytest.param("Trainer/model", "Format-Serving/saved_model.pb", pathlib.Path.unlink, id="model"),
        pytest.param("Trainer/model_run", "run.json", cut, id="record"),
        pytest.param("CsvExampleGen/examples", "Split-train/*", empty, id="empty examples"),
        pytest.param("CsvExampleGen/examples", "Split-train/*", duplicate, id="one more file of examples"),
        pytest.param("ExampleValidator/anomalies", "Split-train/*", garble, id="anomalies"),
        pytest.param("Pusher/pushed_model", "saved_model.pb", cut, id="pushed model"),
    ],
)
@pytest.mark.thorough_but("examples", "variables")
def test_a_damaged_output_is_named_and_made_again(
    damaged: Project,
    output: str,
    name: str,
    damage: Callable[[pathlib.Path], pathlib.Path | None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = max((damaged.root / output).iterdir(), key=lambda path: int(path.name))
    file = next(folder.glob(name))
    file = damage(file) or file
    with caplog.at_level(logging.WARNING):
        outcome = damaged.run()
    assert f"{folder.relative_to(damaged.root)} ({file.relative_to(folder)} " in caplog.text
    step = output.partition("/")[0]
    assert step not in outcome.cached
    assert trained(outcome) == (step not in ("ExampleValidator", "Pusher"))  # the Trainer does not read their outputs
    assert not trained(damaged.run())


@pytest.mark.slow
def test_examples_that_change_while_the_model_is_trained_on_them_are_made_again(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    project = Project(tmp_path / "project")
    (project.folder / "module.py").write_text(MODULE + CHANGING)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setenv("CHANGE_EXAMPLES", "1")
        assert trained(project.run())
    assert "Input files changed while the model was trained on them: " in caplog.text
    assert trained(project.run())
    assert not trained(project.run())

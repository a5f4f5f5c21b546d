"""`generic-trainer elasticdl prepare`: converts images to shards in parallel, resumes, and skips bad files."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
from collections.abc import Callable

import pytest

from generic_trainer.executors.dialects.elasticdl.prepare.command import PreparationJob
from generic_trainer.executors.dialects.elasticdl.prepare.manifest import Group, GroupResult, Manifest
from generic_trainer.executors.dialects.elasticdl.prepare.shards import find_prepare_function, write_group
from generic_trainer.executors.dialects.elasticdl.readers.open_records import open_records
from generic_trainer.executors.errors import InputError, ModuleError

Command = Callable[..., subprocess.CompletedProcess[str]]

# The snippet from ElasticDL's guide.
MNIST = """
    import numpy as np
    import PIL.Image
    import tensorflow as tf

    def prepare_data_for_a_single_file(filename):
        label = int(filename.split('/')[-2])
        image = PIL.Image.open(filename)
        numpy_image = np.array(image)
        example_dict = {
            "image": tf.train.Feature(
                float_list=tf.train.FloatList(value=numpy_image.flatten())
            ),
            "label": tf.train.Feature(
                int64_list=tf.train.Int64List(value=[label])
            ),
        }
        example = tf.train.Example(
            features=tf.train.Features(feature=example_dict)
        )
        return example.SerializeToString()
"""

# The other signature: the open file is the first argument; each line becomes a record.
LINES = """
    def prepare_data_for_a_single_file(file_object, filename):
        for line in file_object:
            yield filename.rpartition("/")[2].encode() + b":" + line.strip()
"""


@pytest.fixture
def images(tmp_path: pathlib.Path) -> pathlib.Path:
    """Sixty of scikit-learn's digits as PNG files, each in the folder of its label."""
    import tensorflow as tf
    from sklearn.datasets import load_digits

    digits = load_digits()
    for number in range(60):
        path = tmp_path / "images" / str(digits.target[number]) / f"{number:04d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tf.io.encode_png(digits.images[number].astype("uint8")[..., None]).numpy())
    return tmp_path / "images"


@pytest.fixture
def lines(tmp_path: pathlib.Path) -> pathlib.Path:
    folder = tmp_path / "lines"
    folder.mkdir()
    for name, count in (("a", 3), ("b", 1), ("c", 2)):
        (folder / name).write_text("".join(f"{number}\n" for number in range(count)))
    return folder


def _prepare(
    command: Command, module: str, folder: pathlib.Path, output: pathlib.Path, *more: object
) -> subprocess.CompletedProcess[str]:
    zoo, name = os.path.split(module)
    model_def = f"--model_def={name.removesuffix('.py')}.custom_model"
    return command("elasticdl", "prepare", "--model_zoo", zoo, model_def, "--input", folder, "--output", output, *more)


def _shards(output: pathlib.Path) -> list[str]:
    return sorted(path.name for path in output.iterdir() if path.is_file())


def _records(output: pathlib.Path) -> list[bytes]:
    return list(open_records(str(output)).dataset().as_numpy_iterator())


@pytest.mark.thorough
@pytest.mark.slow
def test_two_workers_write_every_image_in_the_order_of_the_names(
    command: Command, module: Callable[..., str], images: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    import tensorflow as tf

    done = _prepare(command, module(MNIST), images, tmp_path / "out", "--records-per-shard", 25, "--workers", 2)

    assert done.returncode == 0, done.stderr
    assert "Prepared 60 of 60 files" in done.stderr
    assert _shards(tmp_path / "out") == [f"data-0000{number}.tfrecord" for number in range(3)]  # 25, 25, 10
    examples = [tf.train.Example.FromString(record) for record in _records(tmp_path / "out")]
    labels = [example.features.feature["label"].int64_list.value[0] for example in examples]
    assert labels == sorted(int(path.parent.name) for path in images.rglob("*.png"))
    first = tf.io.decode_png(min(images.rglob("*.png")).read_bytes()).numpy().flatten()
    assert list(examples[0].features.feature["image"].float_list.value) == list(first)


@pytest.mark.thorough
@pytest.mark.slow
def test_bad_files_are_listed_and_a_second_call_prepares_them_and_new_files(
    command: Command, module: Callable[..., str], images: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    output = tmp_path / "out"
    (images / "3" / "broken.png").write_text("no image")
    good = (images / "0" / "0000.png").read_bytes()

    refused = _prepare(command, module(MNIST), images, output)
    assert refused.returncode == 1  # 0.01 of 61 files is none
    assert refused.stderr.count("in prepare_data_for_a_single_file") == 1  # one traceback, of the user's code
    assert "3/broken.png: UnidentifiedImageError" in refused.stderr
    assert "max_bad=0.01 allows 0" in refused.stderr

    done = _prepare(command, module(MNIST), images, output, "--max-bad", "1")
    assert done.returncode == 0, done.stderr
    (bad,) = map(json.loads, (output / "_preparation" / "bad_files.jsonl").read_text().splitlines())
    assert bad["file"] == "3/broken.png"
    assert "PIL.Image.open(filename)" in bad["traceback"]
    assert len(_records(output)) == 60

    before = {path: path.stat().st_mtime_ns for path in output.glob("data-*")}
    (images / "3" / "broken.png").write_bytes(good)
    (images / "9" / "zzzz.png").write_bytes(good)
    again = _prepare(command, module(MNIST), images, output)
    assert "60 of 62 files were already prepared" in again.stdout
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(_records(output)) == 62
    assert (output / "_preparation" / "bad_files.jsonl").read_text() == ""


@pytest.mark.slow
def test_files_of_several_records_fill_recordio_shards(
    command: Command, module: Callable[..., str], lines: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    options = ["--records-per-shard", 3, "--format", "recordio"]
    done = _prepare(command, module(LINES), lines, tmp_path / "out", *options)

    assert done.returncode == 0, done.stderr
    assert _shards(tmp_path / "out") == ["data-00000.recordio", "data-00000_001.recordio"]
    assert _records(tmp_path / "out") == [b"a:0", b"a:1", b"a:2", b"b:0", b"c:0", b"c:1"]


def test_an_interrupted_job_resumes_with_the_same_groups(tmp_path: pathlib.Path) -> None:
    manifest = Manifest(str(tmp_path))
    settings = {"format": "tfrecord"}
    groups = manifest.plan(["a", "b", "c", "d", "e"], 2, settings)
    assert groups == [Group(0, ("a", "b")), Group(1, ("c", "d")), Group(2, ("e",))]
    manifest.write(groups[1], GroupResult(records=2, shards=("data-00001.tfrecord",)))

    with_a_new_file = manifest.plan(["a", "aa", "b", "c", "d", "e"], 2, settings)

    assert with_a_new_file == [groups[0], groups[2], Group(3, ("aa",))]


def test_an_output_is_not_continued_in_another_format(tmp_path: pathlib.Path) -> None:
    Manifest(str(tmp_path)).plan(["a"], 1, {"format": "tfrecord"})
    with pytest.raises(InputError, match=r"prepared with format='tfrecord', not 'recordio'.*another --output"):
        Manifest(str(tmp_path)).plan(["a"], 1, {"format": "recordio"})


class _Module:
    __file__ = "mine.py"

    def __init__(self, function: object = None) -> None:
        if function:
            self.prepare_data_for_a_single_file = function


def test_a_worker_gives_up_when_too_many_files_are_bad(lines: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def fail(filename: str) -> bytes:
        if filename.endswith("b"):
            return b"good"
        raise ValueError("no label")

    job = PreparationJob("mine.py", str(lines), str(tmp_path / "out"))
    result = write_group(find_prepare_function(_Module(fail)), Group(0, ("a", "b", "c")), job, allowed_bad=1)

    assert not result.finished
    assert [bad["file"] for bad in result.bad] == ["a", "c"]
    assert _shards(tmp_path / "out") == []


def test_a_file_with_text_instead_of_bytes_is_bad(lines: pathlib.Path, tmp_path: pathlib.Path) -> None:
    job = PreparationJob("mine.py", str(lines), str(tmp_path / "out"))
    result = write_group(find_prepare_function(_Module(lambda filename: "text")), Group(0, ("a",)), job, allowed_bad=1)
    assert "must return bytes, or an iterable of bytes; it returned 'text'" in result.bad[0]["error"]


def test_a_module_without_the_function_gets_a_hint() -> None:
    with pytest.raises(ModuleError, match=r"write def prepare_data_for_a_single_file\(filename\)"):
        find_prepare_function(_Module())


@pytest.mark.parametrize(
    ("max_bad", "files", "allowed"), [("0.01", 250, 2), ("10", 250, 10), ("0", 9, 0), ("1.0", 9, 9)]
)
def test_bad_files_are_allowed_by_number_or_by_fraction(max_bad: str, files: int, allowed: int) -> None:
    assert PreparationJob("m.py", "in", "out", max_bad=max_bad).allowed_bad(files) == allowed


@pytest.mark.parametrize("max_bad", ["-1", "1.5", "some"])
def test_invalid_limits_for_bad_files_are_rejected(max_bad: str) -> None:
    with pytest.raises(InputError, match=f"max_bad='{max_bad}'"):
        PreparationJob("m.py", "in", "out", max_bad=max_bad)


@pytest.mark.thorough
@pytest.mark.slow
def test_a_killed_worker_ends_the_command(
    command: Command, module: Callable[..., str], lines: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    killing = """
        import os, signal

        def prepare_data_for_a_single_file(filename):
            os.kill(os.getpid(), signal.SIGKILL)
    """
    done = _prepare(command, module(killing), lines, tmp_path / "out", "--records-per-shard", 1, "--workers", 2)

    assert done.returncode == 1
    assert "A worker process was killed" in done.stderr

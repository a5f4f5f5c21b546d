"""One file-system layer: calls behave the same on a local disk and on a TensorFlow file system."""

from __future__ import annotations

import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import uuid

import pytest
import tensorflow as tf

from generic_trainer.executors.runtime.files import file_io

MEMORY = "/dev/shm"  # noqa: S108 (a separate file system on Linux)


@pytest.fixture(params=["local", "ram"])
def root(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> str:
    """A folder on disk and in TensorFlow's in-memory file system, used in place of gs://."""
    if request.param == "local":
        return str(tmp_path)
    folder = f"ram://{uuid.uuid4().hex}/folder"
    file_io.makedirs(folder)
    return folder


@pytest.fixture
def bucket() -> str:
    return f"ram://{uuid.uuid4().hex}"


def fill(folder: str, *names: str) -> None:
    """Writes files that contain their own names."""
    for name in names:
        file_io.write_text(f"{folder}/{name}", name)


def content(folder: str) -> dict[str, str]:
    return {name: file_io.read_text(f"{folder}/{name}") for name in file_io.files_below(folder)}


def test_text_is_written_and_read_in_utf_8(root: str) -> None:
    file_io.write_text(f"{root}/a.txt", "π\n")

    assert file_io.read_text(f"{root}/a.txt") == "π\n"
    assert file_io.read_bytes(f"{root}/a.txt") == b"\xcf\x80\n"
    assert file_io.size_of(f"{root}/a.txt") == 3


def test_an_empty_file_has_no_bytes(root: str) -> None:
    file_io.write_text(f"{root}/empty", "")

    assert file_io.exists(f"{root}/empty")
    assert file_io.size_of(f"{root}/empty") == 0


def test_writing_creates_the_folders_and_replaces_the_file(root: str) -> None:
    file_io.write_text(f"{root}/a/b/c.txt", "first, and longer")
    file_io.write_text(f"{root}/a/b/c.txt", "second")

    assert content(root) == {"a/b/c.txt": "second"}


def test_a_reader_never_sees_a_partial_text(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "run.json"
    file_io.write_text(str(path), "first, and longer")

    with path.open() as reader:
        file_io.write_text(str(path), "second")
        seen = reader.read()

    assert seen == "first, and longer", "the file that a reader has open is not written to"


def test_a_failed_write_keeps_the_old_text(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "run.json"
    file_io.write_text(str(path), "first")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # like a full disk, after 1000 bytes
    try:
        with pytest.raises(OSError, match="File too large"):
            file_io.write_text(str(path), "x" * 100_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert content(str(tmp_path)) == {"run.json": "first"}


def test_files_and_folders_are_distinguished(root: str) -> None:
    fill(root, "folder/file")

    assert [file_io.exists(f"{root}/{name}") for name in ("folder", "folder/file", "nowhere")] == [True, True, False]
    assert [file_io.isdir(f"{root}/{name}") for name in ("folder", "folder/file", "nowhere")] == [True, False, False]


def test_names_in_a_folder_are_sorted_and_without_path(root: str) -> None:
    fill(root, "b", "c/x", "a")

    assert file_io.listdir(root) == ["a", "b", "c"]


def test_patterns_return_sorted_paths(root: str) -> None:
    fill(root, "b.gz", "a.gz", "c.txt", "d/e.gz")

    assert file_io.glob(f"{root}/*.gz") == [f"{root}/a.gz", f"{root}/b.gz"]
    assert file_io.glob(f"{root}/nowhere/*") == []


def test_files_below_a_folder_have_the_same_order_everywhere(root: str) -> None:
    fill(root, "variables/variables.index", "saved_model.pb", "assets/b", "assets/a", "assets/deep/c", "fingerprint.pb")

    assert list(file_io.files_below(root)) == [
        "fingerprint.pb",
        "saved_model.pb",
        "assets/a",
        "assets/b",
        "assets/deep/c",
        "variables/variables.index",
    ]
    assert list(file_io.files_below(f"{root}/")) == list(file_io.files_below(root))


def test_a_folder_is_deleted_with_its_content(root: str) -> None:
    fill(root, "model/a", "model/b/c", "other")

    file_io.rmtree(f"{root}/model")
    file_io.rmtree(f"{root}/nowhere")

    assert content(root) == {"other": "other"}


def test_making_a_folder_twice_is_fine(root: str) -> None:
    file_io.makedirs(f"{root}/a/b")
    file_io.makedirs(f"{root}/a/b")

    assert file_io.isdir(f"{root}/a/b")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/a/b/c", "/a/b"),
        ("/a/b/", "/a"),
        ("a", "."),
        ("gs://bucket/a/b", "gs://bucket/a"),
        ("gs://bucket/a/", "gs://bucket"),
    ],
)
def test_the_parent_of_a_path(path: str, expected: str) -> None:
    assert file_io.parent(path) == expected


def test_moving_a_folder_moves_its_content(root: str) -> None:
    fill(root, "staging/saved_model.pb", "staging/variables/variables.index", "staging/assets/a")
    before = content(f"{root}/staging")

    file_io.move(f"{root}/staging", f"{root}/model/7/Format-Serving")

    assert content(f"{root}/model/7/Format-Serving") == before
    assert not file_io.exists(f"{root}/staging")


def test_a_moved_model_loads(root: str) -> None:
    model = tf.Module()
    model.weight = tf.Variable(3.0)
    tf.saved_model.save(model, f"{root}/staging")

    file_io.move(f"{root}/staging", f"{root}/model")

    assert tf.saved_model.load(f"{root}/model").weight.numpy() == 3.0


@pytest.mark.skipif(not os.path.isdir(MEMORY), reason="there is no second file system")
def test_a_move_to_another_disk_copies(tmp_path: pathlib.Path) -> None:
    model = tf.Module()
    model.number = tf.Variable(3.0)
    tf.saved_model.save(model, f"{tmp_path}/staging")
    with tempfile.TemporaryDirectory(dir=MEMORY) as other:
        with pytest.raises(OSError, match="cross-device"):
            os.rename(f"{tmp_path}/staging", f"{other}/model")  # confirms that it is another file system
        file_io.move(f"{tmp_path}/staging", f"{other}/model")
        assert tf.saved_model.load(f"{other}/model").number.numpy() == 3.0
        made = {name: os.stat(f"{other}/model/{name}").st_ctime_ns for name in file_io.files_below(f"{other}/model")}
        assert made["saved_model.pb"] == max(made.values()), "a copy that is killed holds no model"
    assert not (tmp_path / "staging").exists()


@pytest.mark.parametrize("folder", ["", "export/best/17/"])
def test_an_interrupted_move_leaves_nothing_behind(tmp_path: pathlib.Path, bucket: str, folder: str) -> None:
    fill(f"{tmp_path}/staging", *(f"{folder}{name}" for name in ("saved_model.pb", "assets/a", "variables/data")))
    (tmp_path / "staging" / "z_unreadable").symlink_to("nowhere")

    with pytest.raises(OSError):  # noqa: PT011
        file_io.move(f"{tmp_path}/staging", f"{bucket}/model")

    assert list(file_io.files_below(f"{bucket}/model")) == []
    assert file_io.exists(f"{tmp_path}/staging/{folder}saved_model.pb"), "nothing is lost either"


def test_local_paths_need_no_tensorflow(tmp_path: pathlib.Path) -> None:
    source = f"""
import sys
from generic_trainer.executors.runtime.files import file_io
file_io.write_text({str(tmp_path / "a/b")!r}, "x")
file_io.move({str(tmp_path / "a")!r}, {str(tmp_path / "c")!r})
print(list(file_io.files_below({str(tmp_path)!r})), "tensorflow" in sys.modules)
"""
    child = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True, timeout=600)

    assert child.stdout.strip() == "['c/b'] False"

"""Whatever links a module's outputs hold, the published model holds files."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import stat
from collections.abc import Callable

import pytest

from generic_trainer import FnArgs, InputError, ModelCheckError, TrainingOptions, train
from generic_trainer.executors.saved_models.check import check_saved_model
from generic_trainer.executors.saved_models.locations import find_saved_model
from generic_trainer.executors.saved_models.readable_files import replace_links
from generic_trainer.executors.training.preconditions import require_inputs

from ...world.records import example

MODULE = """
import os, shutil
import tensorflow as tf
from tiny import Tiny

ELSEWHERE = {elsewhere!r}

def save(folder):
    model = Tiny()
    tf.saved_model.save(model, folder, signatures={{"serving_default": model.serve}})

def move_and_link(path, target, relative=False):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.move(path, target)
    os.symlink(os.path.relpath(target, os.path.dirname(path)) if relative else target, path)

def run_fn(fn_args):
    final = fn_args.serving_model_dir
    {body}
"""

LINKS = {
    "the model, to another disk": "save(ELSEWHERE); os.symlink(ELSEWHERE, final)",
    "the model, by a link to a link": (
        "save(ELSEWHERE); os.symlink(ELSEWHERE, ELSEWHERE + '.link'); os.symlink(ELSEWHERE + '.link', final)"
    ),
    "the model, to a folder beside it": ("save(os.path.join(os.path.dirname(final), 'v1')); os.symlink('v1', final)"),
    "the variables, to the checkpoints": (
        "save(final); move_and_link(final + '/variables', fn_args.checkpoint_dir + '/variables')"
    ),
    "the variables, relative": "save(final); move_and_link(final + '/variables', ELSEWHERE + '/variables', True)",
    "a file, to the staging directory": (
        "save(final); move_and_link(final + '/saved_model.pb', final + '/assets/graph.pb')"
    ),
    "a file, relative in the model": (
        "save(final); move_and_link(final + '/saved_model.pb', final + '/assets/graph.pb', True)"
    ),
}


@pytest.mark.thorough_but("the model, to another disk", "the variables, relative", "a file, to the staging directory")
@pytest.mark.parametrize("body", LINKS.values(), ids=LINKS)
def test_a_model_behind_a_link_is_published_as_files(
    body: str, tiny_module: str, module: Callable[..., str], fn_args: FnArgs, tmp_path: pathlib.Path
) -> None:
    import tensorflow as tf

    elsewhere = tmp_path / "elsewhere" / "model"
    source = MODULE.format(elsewhere=str(elsewhere), body=body)
    path = module(source, tiny=pathlib.Path(tiny_module).read_text())
    train(path, fn_args, TrainingOptions(isolate=False))
    shutil.rmtree(elsewhere.parent, ignore_errors=True)
    final = pathlib.Path(str(fn_args.serving_model_dir))
    assert not final.is_symlink()
    assert [one for one in final.rglob("*") if one.is_symlink()] == []
    answer = tf.saved_model.load(str(final)).signatures["serving_default"](tf.constant([example(sepal_length=2.0)]))
    assert answer["y"].numpy().tolist() == [[6.0]]
    others = {"v1"} if "'v1'" in body else set()
    assert set(os.listdir(final.parent)) == {"Format-Serving"} | others


def test_a_model_that_depends_on_the_path_it_was_written_to_fails_its_check(
    module: Callable[..., str], fn_args: FnArgs
) -> None:
    path = module("""
        import os
        import tensorflow as tf

        class Words(tf.Module):
            def __init__(self, path):
                super().__init__()
                self.path = path

            @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="sepal_length")])
            def serve(self, sepal_length):
                return {"y": tf.fill(tf.shape(sepal_length), tf.io.read_file(self.path))}

        def run_fn(fn_args):
            path = os.path.join(os.path.dirname(fn_args.serving_model_dir), "words.txt")
            with open(path, "w") as file:
                file.write("a b c")
            model = Words(path)
            tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
    """)
    with pytest.raises(ModelCheckError, match=r"(?s)check 'answers'.*words\.txt.* The model depends on the path"):
        train(path, fn_args, TrainingOptions(isolate=False))


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("nowhere", r"nowhere: No such file or directory"),
        (".", r"contains the link itself"),
        ("../..", r"contains the link itself"),
        ("link", r"Too many levels of symbolic links"),
        ("/dev/zero", r"/dev/zero is neither a file nor a folder"),
        ("../../around", r"contains the link itself"),
    ],
    ids=["dangling", "its folder", "a folder above", "itself", "device", "a circle elsewhere"],
)
def test_a_link_that_cannot_be_replaced_is_named(tmp_path: pathlib.Path, target: str, reason: str) -> None:
    written = tmp_path / "written"
    (written / "Format-Serving").mkdir(parents=True)
    (tmp_path / "around").mkdir()
    (tmp_path / "around" / "back").symlink_to("../around")
    (written / "Format-Serving" / "link").symlink_to(target)
    with pytest.raises(ModelCheckError, match=rf"Format-Serving/link is a symbolic link to {target}, .*{reason}"):
        replace_links(str(written))


def test_links_in_a_folder_behind_a_link_are_followed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_text("x")
    (tmp_path / "behind").mkdir()
    (tmp_path / "behind" / "data").symlink_to("../data")
    (tmp_path / "written").mkdir()
    (tmp_path / "written" / "assets").symlink_to(tmp_path / "behind")
    replace_links(str(tmp_path / "written"))
    shutil.rmtree(tmp_path / "behind")
    shutil.rmtree(tmp_path / "data")
    assert (tmp_path / "written" / "assets" / "data" / "file").read_text() == "x"


def _make_fifo(path: pathlib.Path) -> None:
    os.mkfifo(path)


def _make_socket(path: pathlib.Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path has at most 107 characters
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def _make_device(path: pathlib.Path) -> None:
    if os.geteuid():
        pytest.skip("only root can make a device")
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))


def _make_unreadable(path: pathlib.Path) -> None:
    path.touch(mode=0)


def _make_unreadable_folder(path: pathlib.Path) -> None:
    path.mkdir(mode=0o600)


def _link_to_unreadable(path: pathlib.Path) -> None:
    target = path.parent.parent.parent / "unreadable"
    target.touch(mode=0)
    path.symlink_to(target)


ODD_FILES = {
    r"is a FIFO \(named pipe\)": _make_fifo,
    "is a socket": _make_socket,
    "is a character device": _make_device,
    "cannot be read: its mode is 0000": _make_unreadable,
    "cannot be read: its mode is 0600": _make_unreadable_folder,
    "is a symbolic link to .*unreadable cannot be read: its mode is 0000": _link_to_unreadable,
}


@pytest.mark.parametrize("name", ["Format-Serving/saved_model.pb", "Format-TFMA/x", "other_models/x"])
@pytest.mark.parametrize(("reason", "make"), ODD_FILES.items(), ids=ODD_FILES)
def test_a_file_that_cannot_be_served_is_named_and_not_opened(
    name: str, reason: str, make: Callable[[pathlib.Path], None], tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "written" / name
    path.parent.mkdir(parents=True)
    make(path)
    with pytest.raises(ModelCheckError, match=f"{name} {reason}"):
        replace_links(str(tmp_path / "written"))
    if not name.startswith("Format-Serving"):
        return
    if os.path.islink(path):
        path.unlink()
        path.touch(mode=0)
        reason = "cannot be read: its mode is 0000"
    with pytest.raises(ModelCheckError, match=f"saved_model.pb {reason}"):
        check_saved_model(str(path.parent))


@pytest.mark.parametrize("argument", ["base_model", "transform_graph_path"])
@pytest.mark.parametrize(("reason", "make"), list(ODD_FILES.items())[:5], ids=list(ODD_FILES)[:5])
def test_an_input_folder_that_cannot_be_read_is_refused_before_training(
    argument: str, reason: str, make: Callable[[pathlib.Path], None], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "model" / "assets").mkdir(parents=True)
    make(tmp_path / "model" / "assets" / "words.txt")
    with pytest.raises(InputError, match=f"{argument}={tmp_path}/model: assets/words.txt {reason}"):
        require_inputs(FnArgs(**{argument: str(tmp_path / "model")}))


def test_a_fifo_is_no_saved_model(tmp_path: pathlib.Path) -> None:
    (tmp_path / "model").mkdir()
    os.mkfifo(tmp_path / "model" / "saved_model.pb")
    assert find_saved_model(str(tmp_path / "model")) is None


@pytest.mark.parametrize("mode", [0o600, 0o444, 0o755])
def test_a_copy_of_a_links_target_has_its_mode(mode: int, tmp_path: pathlib.Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").touch()
    (tmp_path / "data" / "file").chmod(mode)
    (tmp_path / "data").chmod(0o750)
    (tmp_path / "written").mkdir()
    (tmp_path / "written" / "file").symlink_to(tmp_path / "data" / "file")
    (tmp_path / "written" / "data").symlink_to(tmp_path / "data")
    replace_links(str(tmp_path / "written"))
    modes = [stat.S_IMODE((tmp_path / "written" / name).lstat().st_mode) for name in ("file", "data", "data/file")]
    assert modes == [mode, 0o750, mode]

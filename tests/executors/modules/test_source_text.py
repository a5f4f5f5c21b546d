"""A module in any encoding that it declares is trained and shown; one that cannot be decoded is named."""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import ModuleError
from generic_trainer.executors.modules.defined_names import defines
from generic_trainer.executors.modules.snapshot import keep_source, read_source, text_of
from generic_trainer.executors.modules.source import find_source

Command = Callable[..., subprocess.CompletedProcess[str]]
ENCODINGS = {
    "latin-1": "é",
    "cp1252": "€",
    "utf-8-sig": "é",
    "shift_jis": "日本",
    "euc-jp": "日本",
    "koi8-r": "ж",
}
SOURCE = """# -*- coding: {declared} -*-
import tensorflow as tf  # keras is named for the callback that reports progress
LABEL = "{text}"


class Length(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def serve(self, examples):
        return {{"n": tf.strings.length(examples)}}


def run_fn(fn_args):
    import helper
    assert ascii(LABEL) == ascii(helper.LABEL) == fn_args.custom_config["label"], LABEL
    model = Length()
    tf.saved_model.save(model, fn_args.serving_model_dir, signatures=model.serve)
"""


def written(folder: pathlib.Path, encoding: str) -> str:
    folder.mkdir(exist_ok=True)
    declared = "utf-8" if encoding == "utf-8-sig" else encoding
    text = SOURCE.format(declared=declared, text=ENCODINGS[encoding])
    (folder / "encoded.py").write_bytes(text.encode(encoding))
    helper = f'# coding: {declared}\nLABEL = "{ENCODINGS[encoding]}"\n'
    (folder / "helper.py").write_bytes(helper.encode(encoding))
    return str(folder / "encoded.py")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_text_is_read_in_the_declared_encoding(encoding: str, tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "code", encoding)
    source = find_source(path, str(tmp_path))
    keep_source(source, str(tmp_path / "run"))

    assert [pathlib.Path(file).name for file in source.files] == ["encoded.py", "helper.py"]
    assert defines(path, "run_fn")
    assert f'LABEL = "{ENCODINGS[encoding]}"' in text_of(path)
    kept = read_source(str(tmp_path / "run"))
    assert all(f'LABEL = "{ENCODINGS[encoding]}"' in kept[name] for name in ("encoded.py", "helper.py"))


@pytest.mark.thorough
@pytest.mark.parametrize("encoding", ["latin-1", "shift_jis"])
def test_such_a_module_trains(encoding: str, command: Command, iris: Any, tmp_path: pathlib.Path) -> None:
    path = written(tmp_path / "code", encoding)
    config = json.dumps({"label": ascii(ENCODINGS[encoding])})
    data = ["--train-files", iris.train, "--custom-config", config]

    checked = command("check", path, *data)
    done = command("train", path, *data, "--output", tmp_path / "out")
    converted = command("convert", path)

    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert done.returncode == 0, done.stderr
    assert ENCODINGS[encoding] in (tmp_path / "out" / "model_run" / "report.html").read_text("utf-8")
    assert converted.returncode == 2
    assert "it already has a run_fn" in converted.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("def run_fn(fn_args):\n    pass\n".encode("utf-16"), "bad.py is UTF-16 text, which Python cannot read"),
        ("def run_fn(fn_args):\n    pass\n".encode("utf-32"), "bad.py is UTF-32 text, which Python cannot read"),
        (b"a = 1\nb = '\xe9'\n", "bad.py, line 2: the byte 0xe9 is not utf-8"),
        (b"# coding: ascii\n\nb = '\xe9'\n", "bad.py, line 3: the byte 0xe9 is not ascii"),
        (b"# coding: shift_jis\nb = '\xff'\n", "bad.py, line 2: the byte 0xff is not shift_jis"),
        (b"#!/usr/bin/python\n# coding: latin-99\n", "bad.py, line 2: unknown encoding: latin-99"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "bad.py, line 1: encoding problem: utf-8"),
        (b"a = 1\n\0\n", "bad.py, line 2: a NUL byte"),
    ],
)
def test_a_module_that_cannot_be_decoded_is_refused_with_its_line(
    content: bytes, said: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "bad.py").write_bytes(content)

    with pytest.raises(ModuleError) as caught:
        find_source(str(tmp_path / "bad.py"), str(tmp_path / "scratch"))

    assert said in str(caught.value)
    assert "UTF-8" in str(caught.value) or "NUL" in str(caught.value)

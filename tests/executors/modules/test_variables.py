"""The environment variables that a module sets when it is imported: in its source, and in a process that has Keras."""

from __future__ import annotations

import importlib
import pathlib
import subprocess
import sys
import traceback

import pytest

from generic_trainer.executors.modules.early_variables import variables_set_in
from generic_trainer.executors.modules.keras_version import choose
from generic_trainer.executors.modules.late_variables import late_variables

READ = {
    "an item": ("os.environ['KERAS_BACKEND'] = 'jax'", {"KERAS_BACKEND": "jax"}),
    "the imported name": ("from os import environ\nenviron['OMP_NUM_THREADS'] = '1'", {"OMP_NUM_THREADS": "1"}),
    "a default": ("os.environ.setdefault('TF_XLA_FLAGS', '--x')", {"TF_XLA_FLAGS": "--x"}),
    "a default of a set one": ("os.environ.setdefault('SET_BEFORE', 'no')", {}),
    "an update": ("os.environ.update({'A': '1'}, B='2', **more)", {"A": "1", "B": "2"}),
    "the last one counts": ("os.environ['A'] = '1'\nos.environ['A'] = '2'", {"A": "2"}),
    "a computed value": ("os.environ['A'] = str(1)", {}),
    "a condition": ("if x:\n    os.environ['A'] = '1'", {}),
    "another mapping": ("environment['A'] = '1'", {}),
    "what a program reads at its start": ("os.environ['LD_PRELOAD'] = 'x'\nos.environ['PYTHONHASHSEED'] = '0'", {}),
    "what each worker gets": ("os.environ['TF_CONFIG'] = '{}'", {}),
}


@pytest.mark.parametrize("what", READ)
def test_constants_at_the_top_are_read_off_the_source(
    what: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SET_BEFORE", "yes")
    source, variables = READ[what]
    (tmp_path / "model.py").write_text(f"import os\n{source}\n")
    assert variables_set_in([str(tmp_path / "model.py")]) == variables


def test_the_module_chooses_its_keras_by_the_variable(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("import os\nos.environ['TF_USE_LEGACY_KERAS'] = '1'\nimport keras\nkeras.ops.sum(x)\n")
    choice = choose("auto", [str(file)])
    assert choice.version == "2"
    assert "TF_USE_LEGACY_KERAS" in choice.reason or "before TensorFlow 2.16" in choice.reason


def test_a_failing_import_keeps_the_traceback_of_the_users_files(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imports_nothing.py").write_text("import not_installed\n")
    (tmp_path / "fails.py").write_text("import os\nimport imports_nothing\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError) as caught, late_variables([str(tmp_path / "fails.py")]):
        importlib.import_module("fails")
    names = [pathlib.Path(frame.filename).name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "late_variables.py" not in names
    assert [name for name in names if name.endswith(("fails.py", "nothing.py"))] == ["fails.py", "imports_nothing.py"]


LATE = {
    "a computed value": ("os.environ['A'] = str(1)\nimport keras", "A"),
    "several before an import": ("os.environ['B'] = str(1)\nos.environ['A'] = '2'\nfrom tensorflow import x", "A, B"),
    "an import by a library": ("os.environ['A'] = '1'\nimport library", "A"),
    "a helper": ("import helper\nimport tf_keras", "A"),
    "an import in a function": ("os.environ['A'] = '1'", "A"),
    "the value that the process has": ("os.environ['SET'] = 'be' + 'fore'\nimport keras", "none"),
    "what a library sets": ("import setting\nimport keras", "none"),
    "an import of another package": ("os.environ['SET'] = 'before'\nimport json", "none"),
}
PROGRAM = """
import os, sys
sys.path[:0] = [{folder!r}, {folder!r} + "/lib"]
for name in ("keras", "tf_keras", "tensorflow"):
    sys.modules[name] = type(sys)(name)     # as in a worker, which has imported them
    sys.modules[name].x = None
from generic_trainer.executors.modules.late_variables import LateVariables, late_variables
os.environ["SET"] = "before"
try:
    with late_variables([{folder!r} + "/model.py", {folder!r} + "/helper.py"]) as watch:
        import model
        watch.require_none()
except LateVariables as late:
    print(late)
else:
    print("none")
"""


@pytest.mark.parametrize("what", LATE)
def test_variables_set_after_keras_was_imported_are_noticed(what: str, tmp_path: pathlib.Path) -> None:
    source, names = LATE[what]
    (tmp_path / "lib").mkdir()
    (tmp_path / "model.py").write_text(f"import os\n{source}\n")
    (tmp_path / "helper.py").write_text("import os\nif os.sep:\n    os.environ['A'] = '1'\n")
    (tmp_path / "lib" / "library.py").write_text("import keras\n")
    (tmp_path / "lib" / "setting.py").write_text("import os\nos.environ['A'] = '1'\n")
    program = PROGRAM.format(folder=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == names

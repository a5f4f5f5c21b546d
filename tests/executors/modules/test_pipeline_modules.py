"""Modules split over several files, in the layouts that TFX users have, found without running any of them."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable, Iterator

import pytest

from generic_trainer import ModuleError
from generic_trainer.executors.modules.loader import loaded
from generic_trainer.executors.modules.pipeline_modules import PipelineModules, find_modules
from generic_trainer.executors.modules.source import find_source

READS = "def run_fn(fn_args):\n    return fn_args.transform_output\n"
TRAINS = "def run_fn(fn_args):\n    return fn_args.train_files\n"
TRANSFORMS = "def preprocessing_fn(inputs):\n    return inputs\n"
TUNES = "def tuner_fn(fn_args):\n    pass\n"

Project = Callable[[dict[str, str]], pathlib.Path]


@pytest.fixture
def scratch() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield folder


@pytest.fixture
def project(tmp_path: pathlib.Path) -> Project:
    """Writes files below a folder, which it returns."""

    def write(files: dict[str, str]) -> pathlib.Path:
        for name, text in files.items():
            path = tmp_path / "project" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "project"

    return write


def transform_file(modules: PipelineModules) -> str:
    return pathlib.Path(modules.transform.path).name if modules.transform else ""


@pytest.mark.parametrize(
    ("source", "others"),
    [
        ("from preprocessing import preprocessing_fn\n", {"preprocessing.py": TRANSFORMS}),
        ("from preprocessing import *\n", {"preprocessing.py": TRANSFORMS}),
        ("from steps.features import *\n", {"steps/features.py": TRANSFORMS}),
        ("from .preprocessing import *\n", {"preprocessing.py": TRANSFORMS}),
        ("from a import *\n", {"a.py": "from b import *\n", "b.py": TRANSFORMS}),
        ("from a import transform as preprocessing_fn\n", {"a.py": "def transform(inputs): pass\n"}),
        ("try:\n    from a import preprocessing_fn\nexcept ImportError:\n    raise\n", {"a.py": TRANSFORMS}),
    ],
)  # fmt: skip
def test_an_imported_preprocessing_fn_is_the_modules_own(
    source: str, others: dict[str, str], project: Project, scratch: str
) -> None:
    root = project({"model.py": source + READS, **others})
    modules = find_modules(str(root / "model.py"), scratch)
    assert modules.transform == modules.trainer
    assert modules.notice == ""
    with loaded(modules.trainer) as module:
        assert callable(module.preprocessing_fn)


def test_a_star_import_leaves_out_what_all_does_not_list(project: Project, scratch: str) -> None:
    root = project({"model.py": "from a import *\n" + TRAINS, "a.py": '__all__ = ["other"]\n' + TRANSFORMS})
    assert find_modules(str(root / "model.py"), scratch).transform is None


NEARBY = {
    "beside it": {"preprocessing.py": TRANSFORMS},
    "imported": {"model.py": "import features\n" + READS, "features.py": TRANSFORMS, "other.py": TRANSFORMS},
    "with tests beside it": {"preprocessing.py": TRANSFORMS, "preprocessing_test.py": TRANSFORMS},
    "with another training module beside it": {"a_transform.py": TRANSFORMS, "b.py": TRANSFORMS + TRAINS},
    "read by another file": {
        "model.py": "import data\n" + TRAINS,
        "data.py": "import tensorflow_transform as tft\n\ndef graph(fn_args): return tft.TFTransformOutput('')\n",
        "preprocessing.py": TRANSFORMS,
    },
}


@pytest.mark.parametrize("kind", NEARBY)
def test_transform_uses_the_one_file_that_can_be_meant(kind: str, project: Project, scratch: str) -> None:
    root = project({"model.py": READS, **NEARBY[kind]})
    modules = find_modules(str(root / "model.py"), scratch)
    assert transform_file(modules) in ("preprocessing.py", "features.py", "a_transform.py")
    assert modules.notice.startswith(f"Transform uses {root / transform_file(modules)}: ")
    assert "--transform-module" in modules.notice
    assert modules.hints == ()


@pytest.mark.parametrize(
    "files",
    [
        {"models/keras/model.py": READS, "models/keras/__init__.py": "", "models/preprocessing.py": TRANSFORMS},
        {"trainer/model.py": READS, "trainer/__init__.py": "", "transform/preprocessing.py": TRANSFORMS},
        {"trainer/model.py": READS, "transform/preprocessing.py": TRANSFORMS, "setup.py": ""},
    ],
)
def test_in_a_project_the_folders_above_and_beside_are_searched(
    files: dict[str, str], project: Project, scratch: str
) -> None:
    root = project(files)
    modules = find_modules(str(root / next(iter(files))), scratch)
    assert transform_file(modules) == "preprocessing.py"


def test_folders_beside_count_when_the_command_is_run_from_the_project(
    project: Project, scratch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project({"trainer/model.py": READS, "transform/preprocessing.py": TRANSFORMS})
    assert find_modules(str(root / "trainer/model.py"), scratch).transform is None
    monkeypatch.chdir(root)
    modules = find_modules("trainer/model.py", scratch)
    assert modules.transform
    assert modules.transform.reference == "transform/preprocessing.py"


def test_another_examples_preprocessing_fn_is_not_taken(project: Project, scratch: str) -> None:
    other = {"taxi/preprocessing.py": TRANSFORMS, "taxi/model.py": TRAINS}
    root = project({"penguin/model.py": READS, "setup.py": "", **other})
    modules = find_modules(str(root / "penguin/model.py"), scratch)
    assert modules.transform is None
    assert "no file near it defines one" in modules.hints[0]


def test_several_files_are_named_and_none_is_taken(project: Project, scratch: str) -> None:
    root = project({"model.py": READS, "a_transform.py": TRANSFORMS, "b_transform.py": TRANSFORMS})
    modules = find_modules(str(root / "model.py"), scratch)
    assert modules.transform is None
    assert modules.notice == ""
    assert "model.py, line 2" in modules.hints[0]
    assert f"{root / 'a_transform.py'}, {root / 'b_transform.py'} define one" in modules.hints[0]
    assert "--transform-module FILE" in modules.hints[0]


def test_a_module_that_reads_no_transform_output_gets_none(project: Project, scratch: str) -> None:
    root = project({"model.py": TRAINS + "# transform_output\n", "preprocessing.py": TRANSFORMS})
    modules = find_modules(str(root / "model.py"), scratch)
    assert (modules.transform, modules.notice, modules.hints) == (None, "", ())


TUNED = "def run_fn(fn_args):\n    return fn_args.hyperparameters['values']\n"


@pytest.mark.parametrize(
    "files",
    [
        {"model.py": TUNED, "search.py": TUNES},
        {"model.py": "from search import data\n" + TUNED, "search.py": "data = 1\n" + TUNES, "other.py": TUNES},
        {"model.py": "import parts\n" + TRAINS, "parts.py": TUNED.replace("run_fn", "model"), "search.py": TUNES},
    ],
    ids=["beside it", "imported", "read by another file"],
)
def test_the_tuner_uses_the_one_file_that_can_be_meant(files: dict[str, str], project: Project, scratch: str) -> None:
    root = project(files)
    modules = find_modules(str(root / "model.py"), scratch)
    assert modules.tuner
    assert pathlib.Path(modules.tuner.path).name == "search.py"
    assert modules.tuner_notice.startswith(f"The Tuner uses {root / 'search.py'}: ")
    assert "To use another file, pass --tuner-module" in modules.tuner_notice
    assert modules.functions_called(modules.tuner) == ["tuner_fn"]


def test_without_hyperparameters_a_tuner_fn_nearby_is_not_used(project: Project, scratch: str) -> None:
    root = project({"model.py": TRAINS, "search.py": TUNES})
    modules = find_modules(str(root / "model.py"), scratch)
    assert (modules.tuner, modules.tuner_notice, modules.hints) == (None, "", ())


def test_a_module_that_reads_hyperparameters_without_a_tuner_gets_a_hint(project: Project, scratch: str) -> None:
    modules = find_modules(str(project({"model.py": TUNED}) / "model.py"), scratch)
    assert modules.tuner is None
    [hint] = modules.hints
    assert "The module reads hyper-parameters (model.py, line 2) but does not define tuner_fn; no file near it" in hint
    assert (
        "--tuner-module FILE (tuner_module in Python). Alternatively, pass the values with --hyperparameters FILE."
        in hint
    )


def test_named_modules_win(project: Project, scratch: str) -> None:
    root = project({"model.py": READS + TRANSFORMS + TUNES, "t.py": TRANSFORMS, "search.py": TUNES})
    modules = find_modules(str(root / "model.py"), scratch, str(root / "t.py"), str(root / "search.py"))
    assert modules.transform
    assert modules.tuner
    assert modules.transform.path.endswith("t.py")
    assert modules.tuner.path.endswith("search.py")
    assert modules.functions_called(modules.trainer) == []
    assert modules.functions_called(modules.tuner) == ["tuner_fn"]


def test_the_fingerprint_covers_all_modules(project: Project) -> None:
    names = {"model.py": READS, "preprocessing.py": "import vocabulary\n" + TRANSFORMS, "vocabulary.py": "SIZE = 1\n"}
    root = project({**names, "search.py": TUNES})

    def fingerprint() -> str:
        with tempfile.TemporaryDirectory() as folder:
            return find_modules(str(root / "model.py"), folder, "", str(root / "search.py")).fingerprint

    before = fingerprint()
    (root / "vocabulary.py").write_text("SIZE = 2\n")
    between = fingerprint()
    (root / "search.py").write_text(TUNES + "A = 1\n")
    assert len({before, between, fingerprint()}) == 3


def test_a_named_module_without_its_function_error_lists_its_functions(project: Project, scratch: str) -> None:
    root = project({"model.py": TRAINS, "t.py": "def preprocess_fn(inputs): pass\n\ndef helper(): pass\n"})
    with pytest.raises(ModuleError) as raised:
        find_modules(str(root / "model.py"), scratch, str(root / "t.py"))
    text = str(raised.value)
    assert text.startswith(f"--transform-module {root / 't.py'}: there is no preprocessing_fn(inputs)")
    assert "its functions are preprocess_fn, helper. Did you mean" in text
    with pytest.raises(ModuleError, match=r"--tuner-module .*: there is no tuner_fn\(fn_args\); .* preprocess_fn"):
        find_modules(str(root / "model.py"), scratch, "", str(root / "t.py"))


# Absolute imports from the project's root, with the command run from another folder.

FROM_THE_ROOT = {
    "package around the module": {
        "pipeline/models/model.py": "from pipeline.models import features\n",
        "pipeline/models/features.py": "ANSWER = 42\n",
    },
    "packages with __init__.py": {
        "pipeline/models/model.py": "from pipeline.models.features import ANSWER as A\nfrom . import features\n",
        "pipeline/models/features.py": "ANSWER = 42\n",
        "pipeline/models/__init__.py": "",
        "pipeline/__init__.py": "",
    },
    "folder beside, in a marked project": {
        "trainer/model.py": "from models import features\n",
        "models/features.py": "from common.constants import ANSWER\n",
        "common/constants.py": "ANSWER = 42\n",
        "requirements.txt": "",
    },
    "file above, in a marked project": {
        "trainer/deep/model.py": "import features\n",
        "features.py": "ANSWER = 42\n",
        "pyproject.toml": "",
    },
}


@pytest.mark.parametrize("kind", FROM_THE_ROOT)
def test_imports_from_the_projects_root_resolve_anywhere(kind: str, project: Project, scratch: str) -> None:
    files = dict(FROM_THE_ROOT[kind])
    name = next(iter(files))
    files[name] += "\ndef run_fn(fn_args):\n    return features.ANSWER\n"
    root = project(files)
    source = find_source(str(root / name), scratch)
    assert str(root) in source.roots
    assert {path for path in source.files if not path.endswith("__init__.py")} == {
        str(root / one) for one in files if one.endswith(".py") and not one.endswith("__init__.py")
    }
    with loaded(source) as module:
        assert module.run_fn(None) == 42


def test_a_file_of_an_unmarked_folder_above_is_not_imported(project: Project, scratch: str) -> None:
    root = project({"trainer/model.py": "import some_features\n", "some_features.py": ""})
    source = find_source(str(root / "trainer/model.py"), scratch)
    assert source.roots == (str(root / "trainer"),)
    with pytest.raises(ModuleNotFoundError), loaded(source):
        pass


def test_the_current_folder_is_a_root_of_a_module_that_imports_from_it(
    project: Project, scratch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project({"trainer/model.py": "from models import features\n", "models/features.py": "ANSWER = 42\n"})
    monkeypatch.syspath_prepend(str(root))
    source = find_source(str(root / "trainer/model.py"), scratch)
    assert source.roots == (str(root / "trainer"), str(root))

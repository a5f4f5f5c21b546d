"""Runs TFX's own tests of Trainer and Tuner on this package, by swapping their imports.

    python tests/upstream/tfx_tests.py                     # the tests of the installed TFX, which are in its wheel
    python tests/upstream/tfx_tests.py CHECKOUT            # those of a checkout; `CHECKOUT/tfx/components` exists
    python tests/upstream/tfx_tests.py CHECKOUT -k Splits  # more arguments for pytest

The tests run in a copy, in one process per file. The table lists each test as passed, failed, or expected to fail with
the reason. The exit code is 1 if a test has another outcome than expected. A checkout of another release needs an
environment for it, because the tests use the rest of TFX: those of 1.15 run on the lane `legacy-py310`.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

_MODULE = "from tfx.components.testdata.module_file import"
_TRAINER_EXECUTOR = {
    "from tfx.components.trainer import executor": "from generic_trainer.executors import generic_executor as executor",
    "executor.Executor()": "executor.GenericExecutor()",  # the Estimator executor of TFX up to 1.15
}
# File below tfx/components: {text of TFX's test: replacement}.
SWAPS = {
    "trainer/component_test.py": {
        "from tfx.components.trainer import component": "from generic_trainer.components import trainer as component",
        **_TRAINER_EXECUTOR,
    },
    "trainer/executor_test.py": {**_TRAINER_EXECUTOR, _MODULE: "from testdata.module_file import"},
    "trainer/fn_args_utils_test.py": {
        "from tfx.components.trainer import fn_args_utils\n": "import attr\n"
        "from generic_trainer.executors.training.artifacts import common_fn_args\n"
        "from tfx.components.trainer import fn_args_utils\n",  # for its DataAccessor, in an isinstance check
        "fn_args_utils.get_common_fn_args(input_dict, exec_properties,\n"
        "                                               'tempdir')": "attr.evolve(\n"
        "        common_fn_args(input_dict, exec_properties), working_dir='tempdir')",  # as in the Tuner step
    },
    "tuner/component_test.py": {
        "from tfx.components.tuner import component\n": "from generic_trainer.components import tuner as component\n",
    },
    "tuner/executor_test.py": {
        "from tfx.components.tuner import executor\n": "from generic_trainer.components import tuner as executor\n"
        "from generic_trainer.executors.tuning import step\n",
        "executor.Executor": "executor.TunerExecutor",
        "executor._DEFAULT_BEST_HP_FILE_NAME": "step.BEST",
        "executor._DEFAULT_TUNER_RESULTS_FILE_NAME": "step.RESULTS",
        _MODULE: "from testdata.module_file import",
    },
}
EXPECTED_FAILURES = {
    "testDoNonChief": "replaces the private function `_is_chief` of TFX's module, which is not called here",
}


def main(arguments: list[str]) -> int:
    """Runs the tests, prints the table, and returns the exit code."""
    checkout = pathlib.Path(arguments[0]) if arguments and not arguments[0].startswith("-") else _installed()
    options = arguments[1:] if checkout != _installed() else arguments
    if not (checkout / "tfx" / "components").is_dir():
        print(f"{checkout} is no checkout of TFX: it has no folder tfx/components.", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch)
        shutil.copytree(checkout / "tfx" / "components" / "testdata", copy / "testdata")
        outcomes = [outcome for name in SWAPS for outcome in _run(checkout, name, copy, options)]
    for file, test, found, expected in outcomes:
        print(f"{file:30} {test:42} {found}{f' (expected: {expected})' if expected else ''}")
    wrong = sum((found == "failed") != bool(expected) for *_, found, expected in outcomes)
    print(f"{len(outcomes)} tests, {sum(found == 'passed' for _, _, found, _ in outcomes)} passed, {wrong} unexpected")
    return 1 if wrong or not outcomes else 0


def _installed() -> pathlib.Path:
    spec = importlib.util.find_spec("tfx")
    assert spec is not None
    assert spec.origin is not None
    return pathlib.Path(spec.origin).parent.parent


def _run(checkout: pathlib.Path, name: str, copy: pathlib.Path, options: list[str]) -> list[tuple[str, str, str, str]]:
    """Runs the tests of one file; returns (file, test, outcome, reason of an expected failure)."""
    text = (checkout / "tfx" / "components" / name).read_text()
    for before, after in SWAPS[name].items():
        text = text.replace(before, after)
    test = copy / name
    test.parent.mkdir(exist_ok=True)
    test.write_text(text)
    report = copy / "report.xml"
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", copy, f"--junitxml={report}"]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    subprocess.run([*line, test, *options], cwd=copy, env=environment, check=False, stdout=sys.stderr)
    cases = ElementTree.parse(report).iter("testcase")  # noqa: S314
    return [
        (name, case.attrib["name"], _outcome(case), EXPECTED_FAILURES.get(case.attrib["name"], ""))
        for case in cases
        if case.attrib["name"] != "test_session"
    ]


def _outcome(case: ElementTree.Element) -> str:
    kinds = {child.tag for child in case}
    return "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""An exception crosses processes as JSON and arrives with its type, message, notes and traceback."""

from __future__ import annotations

import builtins
import json
import pathlib
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from generic_trainer import FnArgs, InputError, TrainingOptions, TrainingProcessError
from generic_trainer.executors.dialects.needs import choose_keras
from generic_trainer.executors.dialects.script.run import run_script
from generic_trainer.executors.engines import local
from generic_trainer.executors.engines.training_request import TrainingRequest
from generic_trainer.executors.modules.source import find_source
from generic_trainer.executors.runtime.logs.exceptions import (
    RemoteTraceback,
    add_note,
    describe,
    rebuild,
    traceback_of,
    user_location,
)

THREE_ARGUMENTS = """
    class ColumnError(ValueError):
        def __init__(self, table, column, row):
            super().__init__(f"{table}.{column}, row {row}")
"""
ONE_THAT_ADDS = """
    class ColumnError(ValueError):
        def __init__(self, column):
            super().__init__(f"no column {column}")
"""
STRING_OF_ITS_OWN = """
    class ColumnError(ValueError):
        def __init__(self, column):
            self.column = column
        def __str__(self):
            return f"no column {self.column}"
"""
ONE_THAT_COUNTS = """
    class ColumnError(ValueError):
        def __init__(self, columns):
            super().__init__(f"{len(columns)} columns, first {columns['first']}")
"""
KEYWORDS_ONLY = """
    class ColumnError(ValueError):
        def __init__(self, *, column):
            super().__init__(column)
"""


def raised(error: BaseException) -> BaseException:
    """Raises and catches the exception, so that it has a traceback."""
    try:
        raise error
    except BaseException as caught:
        return caught


def crossed(error: BaseException) -> BaseException:
    """Returns the exception after a round trip through JSON."""
    return rebuild(json.loads(json.dumps(describe(raised(error)))))


@pytest.fixture
def user_class(module: Callable[..., str]) -> Callable[[str], Any]:
    """Executes a source that defines ColumnError in a module that is not imported, and returns the class."""

    def define(source: str, **also: Any) -> Any:
        path = pathlib.Path(module(source, "columns.py"))
        names = {"__name__": "user_columns", **also}
        exec(compile(path.read_text(), str(path), "exec"), names)  # noqa: S102
        return names["ColumnError"]

    return define


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such column"),
        ValueError(),
        ValueError("column", 3, None, 0.5),
        KeyError("fare"),
        ZeroDivisionError("division by zero"),
        FileNotFoundError(2, "No such file or directory", "taxi.csv"),
        PermissionError(13, "Permission denied", "a", None, "b"),
        OSError("no number"),
        StopIteration(3),
        ImportError("cannot import name 'x'", name="x"),
        UnicodeDecodeError("utf-8", b"\xff\xfe", 0, 1, "invalid start byte"),
        UnicodeEncodeError("ascii", "\xff", 0, 1, "ordinal not in range(128)"),
        json.JSONDecodeError("Expecting value", "{", 1),
        subprocess.CalledProcessError(2, ["cp", "a"]),
        InputError("a schema is missing"),
        ValueError(["not", "plain"]),
        ValueError("line\nbreak, π, \x00"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_type_and_message_arrive(error: Exception) -> None:
    arrived = crossed(error)

    assert isinstance(arrived, type(error))
    assert type(arrived).__name__ == type(error).__name__
    assert str(arrived) == str(error)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="there are no groups yet")
def test_a_group_arrives_under_its_name() -> None:
    arrived = crossed(builtins.ExceptionGroup("two", [ValueError("a"), TypeError("b")]))

    assert type(arrived).__name__ == "ExceptionGroup"
    assert str(arrived) == "two (2 sub-exceptions)"
    assert "TypeError: b" in str(arrived.__cause__)


def test_plain_arguments_and_attributes_arrive() -> None:
    error = ValueError("column", 3, None)
    error.column, error.rows = "fare", [1, 2]

    arrived = crossed(error)

    assert arrived.args == ("column", 3, None)
    assert arrived.column == "fare"
    assert not hasattr(arrived, "rows"), "lists may hold anything"


def test_a_key_error_keeps_its_key() -> None:
    assert crossed(KeyError("fare")).args == ("fare",)


def test_the_details_of_an_os_error_arrive() -> None:
    arrived = crossed(PermissionError(13, "Permission denied", "a", None, "b"))

    assert (arrived.errno, arrived.filename, arrived.filename2) == (13, "a", "b")


def test_a_syntax_error_contains_its_location(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SyntaxError) as caught:
        compile("def run_fn(:\n    pass\n", "/home/me/taxi.py", "exec")

    arrived = crossed(caught.value)

    assert isinstance(arrived, SyntaxError)
    assert "(taxi.py, line 1, column 12)" in str(arrived)
    assert 'File "/home/me/taxi.py", line 1' in str(arrived.__cause__)


SOURCES = [THREE_ARGUMENTS, ONE_THAT_ADDS, STRING_OF_ITS_OWN, ONE_THAT_COUNTS, KEYWORDS_ONLY]
IDS = ["three arguments", "adds to the message", "string of its own", "not from its message", "keywords only"]
MADE = {
    THREE_ARGUMENTS: lambda cls: cls("trips", "fare", 7),
    ONE_THAT_ADDS: lambda cls: cls("fare"),
    STRING_OF_ITS_OWN: lambda cls: cls("fare"),
    ONE_THAT_COUNTS: lambda cls: cls({"first": "fare"}),
    KEYWORDS_ONLY: lambda cls: cls(column="fare"),
}


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_a_user_class_is_replaced_by_a_subclass_of_its_nearest_known_base(
    user_class: Callable[[str], Any], source: str
) -> None:
    error = MADE[source](user_class(source))

    arrived = crossed(error)

    assert isinstance(arrived, ValueError)
    assert not isinstance(arrived, type(error)), "nobody imports a user's module to name its exception"
    assert (type(arrived).__module__, type(arrived).__qualname__) == ("user_columns", "ColumnError")
    assert str(arrived) == str(error)


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_a_class_imported_here_is_caught_by_its_name(
    user_class: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    cls = user_class(source)
    monkeypatch.setitem(sys.modules, "user_columns", type(sys)("user_columns"))
    sys.modules["user_columns"].ColumnError = cls
    error = MADE[source](cls)

    arrived = crossed(error)

    assert isinstance(arrived, cls)
    assert type(arrived).__name__ == "ColumnError"
    assert str(arrived) == str(error)


def test_a_class_inside_a_function_keeps_its_name() -> None:
    class Local(KeyError):
        pass

    arrived = crossed(Local("fare"))

    assert isinstance(arrived, KeyError)
    assert type(arrived).__name__ == "Local"
    assert type(arrived).__qualname__.endswith("<locals>.Local")
    assert str(arrived) == "'fare'"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SystemExit(3), "SystemExit(3)"),
        (SystemExit(), "SystemExit()"),
        (KeyboardInterrupt(), "KeyboardInterrupt()"),
        (GeneratorExit("why"), "GeneratorExit('why')"),
    ],
)
def test_process_ending_exceptions_become_ordinary_errors(error: BaseException, said: str) -> None:
    arrived = crossed(error)

    assert isinstance(arrived, TrainingProcessError)
    assert arrived.exit_code == 1
    assert said in str(arrived)


def test_errors_of_tensorflow_arrive() -> None:
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        tf.reshape(tf.range(6), [4])

    arrived = crossed(caught.value)

    assert type(arrived) is tf.errors.InvalidArgumentError
    assert arrived.message == caught.value.message
    assert str(arrived) == str(caught.value)


def test_errors_of_tensorflow_arrive_where_it_is_not_imported() -> None:
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        tf.reshape(tf.range(6), [4])
    source = """
import json, sys
from generic_trainer.executors.runtime.logs.exceptions import rebuild
error = rebuild(json.load(sys.stdin))
print(json.dumps([type(error).__name__, isinstance(error, Exception), str(error), "tensorflow" in sys.modules]))
"""
    child = subprocess.run(
        [sys.executable, "-c", source],
        input=json.dumps(describe(caught.value)),
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )

    assert json.loads(child.stdout) == ["InvalidArgumentError", True, str(caught.value), False]


def test_notes_arrive() -> None:
    error = ValueError("no such column")
    add_note(error, "Raised by the training module taxi.py")
    add_note(error, "Set the option keras=2")
    add_note(error, "Raised by the training module taxi.py")

    expected = ["Raised by the training module taxi.py", "Set the option keras=2"]
    assert crossed(error).__notes__ == expected
    assert not hasattr(crossed(ValueError()), "__notes__")


def test_the_cause_is_part_of_the_traceback() -> None:
    def run_fn() -> None:
        try:
            {}["fare"]
        except KeyError as error:
            raise ValueError("no such column") from error

    with pytest.raises(ValueError, match="no such column") as caught:
        run_fn()

    text = str(crossed(caught.value).__cause__)

    assert "KeyError: 'fare'" in text
    assert "The above exception was the direct cause" in text
    assert text.rstrip().endswith("ValueError: no such column")


def test_a_displayed_exception_is_reported_only_once() -> None:
    arrived = crossed(ValueError("no such column"))

    assert isinstance(arrived.__cause__, RemoteTraceback)
    assert arrived.__cause__.text.count("ValueError: no such column") == 1
    assert arrived.__traceback__ is None


def test_describing_does_not_change_the_exception() -> None:
    error = raised(ValueError("no such column"))
    before = error.__traceback__

    describe(error)

    assert error.__traceback__ is before


def test_an_exception_that_was_never_raised_can_be_described() -> None:
    assert str(rebuild(describe(ValueError("no such column")))) == "no such column"


def test_an_exception_that_cannot_be_printed_still_arrives(user_class: Callable[[str], Any]) -> None:
    cls = user_class("""
        class ColumnError(ValueError):
            def __str__(self):
                return self.not_there
    """)

    arrived = crossed(cls(["fare"]))

    assert isinstance(arrived, ValueError)
    assert type(arrived).__name__ == "ColumnError"


class TestWhereTheTracebackBegins:
    @pytest.fixture
    def failed(self, module: Callable[..., str], tmp_path: pathlib.Path) -> Callable[..., BaseException]:
        """Writes a training module, runs it as a worker does, and returns the exception that it raised."""

        def run(source: str, name: str = "taxi.py", **others: str) -> BaseException:
            found = find_source(module(source, name, **others), str(tmp_path / "scratch"))
            keras = choose_keras("auto", found.files)
            request = TrainingRequest(found, None, FnArgs(), TrainingOptions(), keras)
            with pytest.raises(Exception) as caught:  # noqa: PT011
                local.run_in_process("generic_trainer.executors.training.worker", request.to_json())
            return caught.value

        return run

    def test_in_the_users_run_fn(self, failed: Callable[..., BaseException]) -> None:
        error = failed("""
            import helper

            def run_fn(fn_args):
                helper.read(fn_args)
        """, helper="def read(fn_args):\n    raise ValueError('no such column')\n")  # fmt: skip

        assert files_of(traceback_of(error)) == ["taxi.py", "helper.py"]

    def test_and_its_innermost_location_in_the_users_code_is_known(
        self, failed: Callable[..., BaseException], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        error = failed("""
            import json, helper

            def run_fn(fn_args):
                helper.read(fn_args)
        """, helper="import json\ndef read(fn_args):\n    json.loads('{')\n")  # fmt: skip
        text = traceback_of(error)
        location = user_location(text)
        assert location.endswith("/helper.py:3")
        monkeypatch.chdir(pathlib.Path(location).parent)
        assert user_location(text) == "helper.py:3"
        assert user_location("ValueError: no frames") == ""

    def test_in_the_users_module_when_it_fails_to_import(self, failed: Callable[..., BaseException]) -> None:
        assert files_of(traceback_of(failed("import no_such_package"))) == ["taxi.py"]

    def test_in_a_package_of_the_users(self, failed: Callable[..., BaseException]) -> None:
        error = failed("from . import helper", "package/taxi.py", **{"package/__init__": "", "package/helper": "1 / 0"})

        assert files_of(traceback_of(error)) == ["taxi.py", "helper.py"]

    def test_at_the_line_of_a_syntax_error(self, failed: Callable[..., BaseException]) -> None:
        assert files_of(traceback_of(failed("def run_fn(:\n    pass"))) == ["taxi.py"]

    def test_and_continues_into_our_frames_where_the_user_called_us(self, failed: Callable[..., BaseException]) -> None:
        error = failed("""
            def run_fn(fn_args):
                type(fn_args).from_json({})
        """)

        assert files_of(traceback_of(error)) == ["taxi.py", "fn_args.py"]

    def test_of_a_script_that_exits(self, module: Callable[..., str], tmp_path: pathlib.Path) -> None:
        path = module("import argparse\nargparse.ArgumentParser().parse_args(['--unknown'])", "taxi.py")
        script = types.ModuleType("taxi")
        script.__file__ = path
        with pytest.raises(TrainingProcessError, match=r"sys\.exit\(2\)") as caught:
            run_script(script, FnArgs(), [], is_model_needed=True)
        text = traceback_of(caught.value)
        assert files_of(text) == ["taxi.py", "argparse.py"]
        assert text.endswith("SystemExit: 2\n")

    def test_at_our_own_frames_when_there_are_no_others(self, failed: Callable[..., BaseException]) -> None:
        assert "worker.py" in files_of(traceback_of(failed("x = 1")))


def files_of(text: str) -> list[str]:
    """Returns the names of the files in a traceback, each once, from the outermost frame to the innermost."""
    paths = [line.split('"')[1] for line in text.splitlines() if line.lstrip().startswith('File "')]
    return list(dict.fromkeys(pathlib.PurePath(path).name for path in paths))

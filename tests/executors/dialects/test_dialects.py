"""Detection of a module's dialect, and the errors if there is none or if there are two."""

from __future__ import annotations

import importlib.metadata
from types import ModuleType

import pytest

from generic_trainer import FnArgs, InputError, ModuleError, TrainingOptions
from generic_trainer.executors import dialects
from generic_trainer.executors.dialects import registry, selection
from generic_trainer.executors.dialects.estimators.trainer_fn_adapter import TrainerFnAdapter
from generic_trainer.executors.dialects.run_fn import RunFnDialect


def module_with(source: str) -> ModuleType:
    module = ModuleType("taxi")
    module.__file__ = "/code/taxi.py"
    exec(compile(source, "/code/taxi.py", "exec"), vars(module))  # noqa: S102
    return module


class Other(dialects.Dialect):
    """A third-party dialect: `fit_fn(fn_args, more)`."""

    needs = "a function fit_fn(fn_args, more)"

    def matches(self, module: ModuleType, function: str | None) -> str:
        return "it defines fit_fn" if hasattr(module, "fit_fn") else ""

    def run_fn(self, module: ModuleType, function: str | None, options: TrainingOptions) -> dialects.RunFn:
        return lambda fn_args: module.fit_fn(fn_args, "more")


BOTH = {"run_fn": RunFnDialect(), "other": Other()}


def choose(source: str, function: str | None = None, dialect: str = "auto") -> tuple[str, str, dialects.RunFn]:
    module, options = module_with(source), TrainingOptions(dialect=dialect)
    name, reason = selection.choose(module, function, options, BOTH)
    return name, reason, BOTH[name].run_fn(module, function, options)


def test_the_evidence_decides() -> None:
    name, reason, run = choose("def run_fn(fn_args): return fn_args.train_steps")
    assert (name, reason, run(FnArgs(train_steps=3))) == ("run_fn", "it defines run_fn", 3)
    name, _, run = choose("def fit_fn(fn_args, more): return more")
    assert (name, run(FnArgs())) == ("other", "more")


def test_a_function_with_another_name() -> None:
    name, reason, run = choose("def run_fn(a): return 1\ndef train_it(fn_args): return 2", function="train_it")
    assert (name, reason, run(FnArgs())) == ("run_fn", "the function train_it was requested", 2)


def test_callables_and_defaults_are_fine() -> None:
    assert choose("class R:\n  def __call__(self, fn_args): return 1\nrun_fn = R()")[2](FnArgs()) == 1
    assert choose("def run_fn(fn_args, epochs=3): return epochs")[2](FnArgs()) == 3
    assert choose("import functools\ndef f(n, fn_args): return n\nrun_fn = functools.partial(f, 7)")[2](FnArgs()) == 7


def test_a_module_with_both_keeps_its_run_fn() -> None:
    both = {"run_fn": RunFnDialect(), "trainer_fn": TrainerFnAdapter()}
    source = "def run_fn(fn_args): return 1\ndef trainer_fn(fn_args, schema): pass\ndef other(a, b): pass"
    assert selection.choose(module_with(source), None, TrainingOptions(), both)[0] == "run_fn"
    alone = "def trainer_fn(fn_args, schema): pass"
    assert selection.choose(module_with(alone), None, TrainingOptions(), both)[0] == "trainer_fn"
    name, reason = selection.choose(module_with(source), "other", TrainingOptions(), both)
    assert (name, reason) == ("trainer_fn", "the function other takes fn_args and schema")


def test_a_conf_is_dlrovers_unless_its_module_has_a_run_fn() -> None:
    every = dialects.adapters()
    conf = "def model_fn(features, labels): 1\nclass C:\n    classifier_class = train_set = eval_set = 1\n"
    for source, function, expected in (
        (conf, None, "dlrover"),
        (conf, "C", "dlrover"),
        (conf, "model_fn", "model_fn"),
        (f"{conf}def run_fn(fn_args): 1", None, "run_fn"),
        (f"{conf}def run_fn(fn_args): 1", "C", "dlrover"),
    ):
        assert selection.choose(module_with(source), function, TrainingOptions(), every)[0] == expected


def test_no_dialect_is_reported_with_what_was_found_and_what_is_needed() -> None:
    with pytest.raises(ModuleError) as caught:
        choose("def run_fun(fn_args): pass\ndef build(): pass")
    assert str(caught.value) == (
        "Training module /code/taxi.py has no entry point of a known dialect. Did you mean 'run_fun'? "
        "It defines build, run_fun. other needs a function fit_fn(fn_args, more); run_fn needs "
        "a function run_fn(fn_args), or the name of another function that takes fn_args."
    )
    with pytest.raises(ModuleError, match=r"no function 'trian'. Did you mean 'train'\?"):
        choose("def train(fn_args): pass", function="trian")
    with pytest.raises(ModuleError, match="It defines no functions or classes"):
        choose("x = 1")


def test_two_dialects_require_a_choice() -> None:
    source = "def run_fn(fn_args): return 1\ndef fit_fn(fn_args, more): return 2"
    with pytest.raises(ModuleError, match=r"more than one dialect: other \(it defines fit_fn\); run_fn \(it defines"):
        choose(source)
    assert choose(source, dialect="other")[2](FnArgs()) == 2


def test_a_dialect_that_is_not_installed() -> None:
    with pytest.raises(InputError, match=r"dialect='run_fun' is not installed.*Did you mean 'run_fn'\?"):
        choose("def run_fn(fn_args): pass", dialect="run_fun")


@pytest.mark.parametrize("source", ["def run_fn(): pass", "def run_fn(a, b): pass", "def run_fn(*, fn_args): pass"])
def test_the_wrong_arity_names_file_and_line(source: str) -> None:
    with pytest.raises(ModuleError, match=r"/code/taxi.py, line 2: run_fn\(.*\) cannot be called with fn_args alone"):
        choose("\n" + source)


def test_requesting_a_dialect_that_does_not_fit() -> None:
    with pytest.raises(ModuleError, match="has no function 'run_fn'"):
        choose("x = 1", dialect="run_fn")


def test_built_in_dialects_are_registered_as_entry_points() -> None:
    assert {entry.name for entry in importlib.metadata.entry_points(group=registry.GROUP)} >= {"run_fn", "trainer_fn"}
    assert isinstance(dialects.adapters()["run_fn"], RunFnDialect)

"""Hostile numbers, names and files are refused where they enter: exit code 2, one line with flag and value, no outputs.

The options are taken from the commands themselves, so a new option is tested without a new line here.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable, Iterator

import click
import pytest

from generic_trainer.cli import main
from generic_trainer.cli.number_type import NumberType
from generic_trainer.cli.submit import PLATFORMS, TRAINER, PlatformOption, submit

Run = Callable[..., str]
OWN = (NumberType, click.Choice, click.types.BoolParamType)
NUMBERS = [
    *("nan", "-NaN", "inf", "-Infinity", "1e400", "-1e400", "1e300", "1e10x", "two", "0x10", "1;2", " ", "½"),
    *(str(2**70), str(-(2**70)), "9" * 5_000),
]


def files() -> list[str]:
    """Returns the files of the working folder, without the record of a failed run."""
    return sorted(str(path) for path in pathlib.Path().rglob("*") if path.is_file() and "model_run" not in path.parts)


@pytest.fixture
def refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command that must exit with code 2 and write nothing; returns the last line that it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    pathlib.Path("module.py").write_text("def run_fn(fn_args):\n    raise AssertionError\n")
    pathlib.Path("data.tfrecord").write_bytes(b"")

    def run(*line: str) -> str:
        before = files()
        monkeypatch.setattr(sys, "argv", ["generic-trainer", *line])
        code, printed = main._exit_code(), capfd.readouterr()
        assert (code, printed.out, files()) == (2, "", before), (line, printed)
        assert "Traceback" not in printed.err
        last = printed.err.splitlines()[-1]
        assert last.startswith("generic-trainer: ")
        assert len(last) <= 300
        return last

    return run


def commands(
    group: click.Command = main.cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(group, click.Group):
        yield path, group
        return
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command
        yield from commands(command, (*path, name))


def options(command: click.Command) -> list[click.Option]:
    return [option for option in command.params if isinstance(option, click.Option) and not option.hidden]


def shown(value: str) -> str:
    return repr(value)[:20]


@pytest.mark.parametrize(("path", "command"), [pytest.param(*found, id=" ".join(found[0])) for found in commands()])
def test_impossible_numbers_are_refused_by_every_option(
    path: tuple[str, ...], command: click.Command, refused: Run
) -> None:
    for option in options(command):
        assert not isinstance(option.type, (click.types.IntParamType, click.types.FloatParamType)), (
            f"{option.opts}: use NumberType, which has limits and refuses NaN"
        )
        for value in NUMBERS if isinstance(option.type, NumberType) else []:
            flag = max(option.opts, key=len)
            last = refused(*path, f"{flag}={value}")
            assert flag in last
            assert shown(value) in last
            assert "give a" in last


def test_an_impossible_number_in_the_environment_or_a_file_is_refused(
    refused: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pathlib.Path("job.yaml").write_text("head-cpus: .nan\n")
    assert "job.yaml, line 1: head-cpus: '.nan'" in refused("submit", "--config", "job.yaml")
    pathlib.Path("job.yaml").write_text("submit:\n  head-cpus: 1e400\n")
    assert "job.yaml, line 2: head-cpus: '1e400'" in refused("submit", "--config", "job.yaml")
    monkeypatch.setenv("GENERIC_TRAINER_SUBMIT_HEAD_CPUS", "inf")
    assert "'inf': give a number" in refused("submit", "--to=kuberay")


TRAIN = ["train", "module.py", "--train-files", "data.tfrecord", "--output", "out"]
COMPILE = [
    *("compile", "--to", "kubeflow", "--image", "trainer:1", "--data", "gs://b/d", "--module-file", "module.py"),
    *("--label", "y", "--pipeline-root", "gs://b/r", "--output", "out.yaml"),
]


@pytest.mark.parametrize("number", ["nan", "²", str(2**70), "1e3", "-1", "9" * 5_000])
@pytest.mark.parametrize(
    ("line", "flag"),
    [
        ([*TRAIN, "--engine=ray", "--workers={}"], "workers"),
        ([*TRAIN, "--engine=ray", "--workers=1:{}"], "workers"),
        ([*TRAIN, "--cluster=worker={}"], "--cluster"),
        ([*TRAIN, "--early-stop=loss:{}"], "early_stop"),
        ([*TRAIN, "--on-bad-records=skip:{}"], "on_bad_records"),
    ],
)
def test_impossible_numbers_within_a_text_are_refused(line: list[str], flag: str, number: str, refused: Run) -> None:
    last = refused(*(word.format(number) for word in line))
    assert flag in last
    assert number[:20] in last


# Paths and other free texts, which have rules of their own or none.
FREE = {"--output", "--code-root", "--in-image", "--not-secret", "--from", "--pod-patch", "--config"}
NAMES = ["a b", "a;b", "a\nb", "a\x1b[31mb", "-a", "ä/", "a|b", "$(A)", "x" * 2_000]


REMOTE = ["train", "module.py", "--train-files=gs://b/t", "--output=gs://b/o", "--engine=ray"]


def submitted(flag: str) -> list[str]:
    """Returns a valid command line on a platform that has the flag."""
    own = {option.opts[0]: option.platform for option in submit.params if isinstance(option, PlatformOption)}
    platform = own.get(flag, PLATFORMS[0])
    line = ["submit", "--to", platform, "--image", "registry/trainer:1", "--code-root", "gs://b/code", "--output=job"]
    return [*line, "{}", "--", *REMOTE, *(["--gpus-per-worker=1"] if flag == "--accelerator" else [])]


@pytest.mark.parametrize("flag", [max(option.opts, key=len) for option in options(submit)])
def test_what_cannot_be_a_name_is_refused_by_every_option_of_submit(flag: str, refused: Run) -> None:
    option = next(parameter for parameter in submit.params if flag in parameter.opts)
    if not isinstance(option.type, click.types.StringParamType) or flag in FREE:
        return
    for value in NAMES:
        last = refused(*(word.format(f"{flag}={value}") for word in submitted(flag)))
        assert flag in last, (value, last)
        # Control characters are replaced, line feeds separate parts, and words after "secret" are redacted.
        assert any(part in last for part in (repr(value)[1:9], value[:9], "; b", "\ufffd[31mb", "***")), (value, last)


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--image", "Registry/Trainer:1"),
        ("--image", "registry/trainer:1:2"),
        ("--image", "registry/trainer:"),
        ("--image", "registry/trainer@sha256:12"),
        ("--image", "registry//trainer"),
        ("--image", "https://registry/trainer"),
        ("--ray-version", "2.x"),
        ("--ray-version", "latest"),
        ("--namespace", "a.b"),
        ("--queue", "a..b"),
        ("--queue", "a" * 64),
        ("--accelerator", f"{'a' * 300}/b=c"),
        ("--accelerator", "a..b/c=d"),
        ("--accelerator", "team=a;b"),
        ("--env", "1A=b"),
        ("--env-secret", "A=secret/key;b"),
        ("--volume", "claim:/a\tb"),
        ("--service-account", "me@project"),
    ],
)
def test_names_follow_the_rules_of_the_platform(flag: str, value: str, refused: Run) -> None:
    last = refused(*(word.format(f"{flag}={value}") for word in submitted(flag)))
    assert flag in last
    assert value.partition("=")[2][:20] in last or value[:20] in last


@pytest.mark.parametrize(
    "flags",
    [
        ["--env=A=1", "--env=A=2"],
        ["--env=A=1", "--env-secret=A=secret/key"],
        ["--env-secret=A=secret/key", "--env-secret=A=secret/other"],
        ["--image-pull-secret=a", "--image-pull-secret=a"],
        ["--volume=a:/data", "--volume=b:/data/"],
    ],
)
def test_a_name_that_occurs_twice_is_refused(flags: list[str], refused: Run) -> None:
    line = submitted("")
    last = refused(*line[: line.index("{}")], *flags, *line[line.index("{}") + 1 :])
    assert flags[0].split("=")[0] in last
    assert "occurs twice" in last


@pytest.mark.parametrize(
    "flags",
    [
        *([f"--resources=Trainer:{name}={value}"] for name in ("cpus", "gpus") for value in ("nan", str(2**70), "-1")),
        ["--resources=Trainer:memory_gb=inf"],
        ["--resources=Trainer:cpus=1,cpus=2"],
        ["--resources=Trainer:cpus=1", "--resources=Trainer:cpus=2"],
    ],
)
def test_resources_of_a_step_are_numbers_and_given_once(flags: list[str], refused: Run) -> None:
    assert "--resources" in refused(*COMPILE, *flags)


def test_a_runtime_of_kubeflow_has_a_name(refused: Run) -> None:
    for line in (["--runtime=a b"], ["--runtime=a b", "--", *REMOTE]):
        assert "--runtime 'a b'" in refused("submit", "--to", TRAINER, "--image=trainer:1", "--code-root=gs://b", *line)


DEEP = 3_000
FILES: dict[str, Callable[[], str]] = {
    "deep.json": lambda: '{"a":' * DEEP + "1" + "}" * DEEP,
    "list.json": lambda: '{"a": ' + "[" * DEEP + "]" * DEEP + "}",
    "hundreds.json": lambda: '{"a":' * 300 + "1" + "}" * 300,
    "huge.json": lambda: json.dumps({"comment": " " * 100_000_000}),
    "twice.json": lambda: '{"a": {"b": 1, "b": 2}}',
    "nan.json": lambda: '{"a": [1, NaN]}',
    "infinity.json": lambda: '{"a": {"b": -Infinity}}',
    "exponent.json": lambda: '{"a": 1e400}',
    "integer.json": lambda: json.dumps({"a": 2**70}),
    "digits.json": lambda: '{"a": ' + "9" * 5_000 + "}",
    "deep.yaml": lambda: "spec: " + "{a: " * DEEP + "1" + "}" * DEEP,
    "lines.yaml": lambda: "".join(f"{' ' * level}a:\n" for level in range(1_000)),
    "huge.yaml": lambda: f"# {'x' * 77}\n" * 1_250_000,
    "bomb.yaml": lambda: "spec: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(9)),
    "merged.yaml": lambda: "spec:\n  <<: {a: 1}\n",
    "twice.yaml": lambda: "spec:\n  a: 1\n  'a': 2\n",
    "object.yaml": lambda: "spec: !!python/object/apply:os.system ['false']\n",
    "tag.yaml": lambda: "spec: {a: !foo 1}\n",
    "set.yaml": lambda: "spec: !!set {a, b}\n",
    "binary.yaml": lambda: "spec: {a: !!binary aGVsbG8=}\n",
    "text.yaml": lambda: "spec: {a: !!str 1}\n",
    "int.yaml": lambda: "spec: {a: !!int x}\n",
    "nan.yaml": lambda: "spec: {a: .nan}\n",
    "integer.yaml": lambda: f"spec: {{a: {2**70}}}\n",
    "digits.yaml": lambda: f"spec: {{a: {'9' * 5_000}}}\n",
    "deep.pbtxt": lambda: "feature { struct_domain { " * DEEP + "} }" * DEEP,
    "hundreds.pbtxt": lambda: "feature { struct_domain { " * 100 + "} }" * 100,
    "huge.pbtxt": lambda: f"# {'x' * 77}\n" * 1_250_000,
}
SAID = {
    **dict.fromkeys(("deep", "list", "hundreds", "lines"), "nested"),
    "huge": "larger than",
    "bomb": "alias",
    "merged": "merge key",
    "twice": "twice",
    "nan": "nan",
    "infinity": "-inf",
    "exponent": "inf",
    "integer": "more than 64 bits",
    "digits": "digits",
    **dict.fromkeys(("object", "tag", "set", "binary", "text", "int"), "line 1: the tag "),
}
SUBMIT = ["submit", "--to=kuberay", "--image=trainer:1", "--output=job"]
READERS = {
    "json": [[*TRAIN, "--custom-config=@{}"], [*TRAIN, "--hyperparameters={}"], [*COMPILE, "--custom-config=@{}"]],
    "yaml": [[*SUBMIT, "--pod-patch={}"], [*SUBMIT, "--from={}"]],
    "pbtxt": [[*TRAIN, "--schema={}"]],
}


@pytest.mark.parametrize("name", FILES)
def test_hostile_files_are_refused(name: str, refused: Run) -> None:
    pathlib.Path(name).write_text(FILES[name]())
    stem, _, ending = name.partition(".")
    for line in READERS[ending]:
        last = refused(*(word.format(name) for word in line))
        assert name in last
        assert SAID[stem] in last or (stem == "twice" and "duplicate key" in last), last


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".yaml")])
def test_hostile_configurations_are_refused(name: str, refused: Run) -> None:
    pathlib.Path(name).write_text(FILES[name]().replace("spec:", "custom-config:", 1))
    last = refused("train", "--config", name)
    assert name in last


def test_a_sparse_file_of_a_terabyte_is_not_read(refused: Run) -> None:
    for flag, what in (("--config", "yaml"), ("--schema", "pbtxt"), ("--custom-config=@", "json")):
        with pathlib.Path(f"sparse.{what}").open("wb") as file:
            file.truncate(1 << 40)
        words = [f"{flag}sparse.{what}"] if flag.endswith("@") else [flag, f"sparse.{what}"]
        assert "larger than" in refused(*TRAIN, *words)

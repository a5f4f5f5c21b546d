"""ElasticDL's documented command lines: which flags have an effect, and what is said about the others."""

from __future__ import annotations

import click
import pytest

from generic_trainer.executors.dialects.elasticdl.command.flags import SUPPORTED, effective_flags
from generic_trainer.executors.dialects.elasticdl.command.group import elasticdl
from generic_trainer.executors.errors import InputError

COMMANDS: dict[str, click.Command] = elasticdl.commands
MODEL = "--model_zoo=model_zoo --model_def=mnist.mnist_functional_api.custom_model"
CHECKPOINT = "--checkpoint_dir_for_init=/ckpt/version-100"
PODS = "--image_name=elasticdl:ci --job_name=test --master_resource_request=cpu=0.3,memory=1024Mi --volume=host_path=/d"


def effect_of(command: str, line: str) -> dict[str, object]:
    """Returns the flags of a command line that have an effect, except for those that name model and output."""
    context = COMMANDS[command].make_context(command, f"{MODEL} {line}".split())
    given = effective_flags(command, context.params)
    names = {flag.name for flag in SUPPORTED} - {"model_zoo", "model_def", "output"}
    return {name: value for name, value in given.items() if name in names}


# From scripts/client_test.sh of 0.2.0rc1 and of the last version, and from the parser of 0.1.0rc0.
LINES = {
    ("evaluate", "rc1"): (
        f"{CHECKPOINT} --validation_data=/data --num_epochs=1 --minibatch_size=64 --num_workers=2 --num_ps_pods=1 "
        f"--evaluation_steps=15 --tensorboard_log_dir=/tmp/logs --log_level=INFO --output=/out {PODS}",
        {"checkpoint_dir_for_init": "/ckpt/version-100", "validation_data": "/data", "minibatch_size": 64},
        ["num_epochs", "num_workers", "num_ps_pods", "evaluation_steps", "tensorboard_log_dir", "output", "job_name"],
    ),
    ("predict", "rc1"): (
        f"{CHECKPOINT} --prediction_data=/data --num_workers=2 --checkpoint_steps=5 --checkpoint_dir=/c --loss=mse "
        f"--distribution_strategy=ParameterServerStrategy --need_elasticdl_job_service=true --use_async {PODS}",
        {"checkpoint_dir_for_init": "/ckpt/version-100", "prediction_data": "/data"},
        ["num_workers", "checkpoint_steps", "checkpoint_dir", "loss", "distribution_strategy", "use_async", "volume"],
    ),
    ("evaluate", "0.1.0rc0"): (
        "--checkpoint_filename_for_init=/ckpt/v1 --evaluation_data=/data --dataset_fn=read --image_base=python:3.6 "
        "--docker_image_repository=hub --docker_base_url=tcp://d --grads_to_wait=2",
        {"checkpoint_dir_for_init": "/ckpt/v1", "validation_data": "/data", "feed": "read"},
        ["image_base", "docker_image_repository", "docker_base_url", "grads_to_wait"],
    ),
    ("train", "client 1.0.0"): (
        "--training_data=/data --num_evaluators=1 --ps_image=a --chief_resource_request=cpu=1 --ps_is_critical=true "
        "--critical_worker_index=default --num_epochs=2 --prediction_data=/more",
        {"training_data": "/data", "num_epochs": 2},
        ["num_evaluators", "ps_image", "chief_resource_request", "ps_is_critical", "critical_worker_index"],
    ),
    ("train", "one worker and one parameter server"): (
        "--training_data=/data --num_workers=1 --num_ps_pods=1 --distribution_strategy=ParameterServerStrategy",
        {"training_data": "/data"},
        ["num_ps_pods", "distribution_strategy"],
    ),
}


@pytest.mark.parametrize(("command", "release"), LINES)
def test_documented_flags_are_accepted_and_those_without_effect_are_named_once(
    command: str, release: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line, effective, ignored = LINES[command, release]
    assert effect_of(command, line) == effective
    said = capsys.readouterr().err.splitlines()
    for name in ignored:
        assert [text for text in said if text.startswith(f"--{name}")] != [], (name, said)
    assert len({text.partition(" ")[0] for text in said}) == len(said)
    assert all(" is ignored: " in text for text in said), said


@pytest.mark.parametrize(
    "line", ["zoo init --base_image=python:3.6", "zoo build --image=a:b .", "zoo push a:b", "clean"]
)
def test_commands_for_images_name_the_replacement(line: str) -> None:
    command, *words = line.split()
    with pytest.raises(InputError, match=rf"^elasticdl {command}.*generic-trainer submit --image IMAGE -- elasticdl"):
        COMMANDS[command].main(words, prog_name=command, standalone_mode=False)


def test_unique_beginnings_of_elasticdls_flags_are_accepted() -> None:
    line = "--model_z=z --model_def=a.b --training_da=/d --num_ps=2 --num_evaluator=1 --dataset=g --seed 3"
    values = COMMANDS["train"].make_context("train", line.split()).params
    names = ("model_zoo", "training_data", "num_ps_pods", "num_evaluators", "feed", "seed")
    assert [values[name] for name in names] == ["z", "/d", 2, "1", "g", 3]
    with pytest.raises(click.NoSuchOption, match="--checkpoint"):
        COMMANDS["train"].make_context("train", ["--checkpoint=/c"])


@pytest.mark.parametrize("command", [COMMANDS[name] for name in ("train", "evaluate", "predict")])
def test_no_option_is_the_beginning_of_another_projects_flag(command: click.Command) -> None:
    full_name = command.context_settings["token_normalize_func"]
    names = [option.lstrip("-") for parameter in command.params for option in parameter.opts]
    choices = [value for one in command.params if isinstance(one.type, click.Choice) for value in one.type.choices]
    assert [full_name(name) for name in (*names, *choices)] == [*names, *choices]


@pytest.mark.parametrize(
    ("job", "script"),
    [
        ("python -m model_zoo.mnist.train --data /d", "-m model_zoo.mnist.train --output DIR -- --data /d"),
        ("A=1 /usr/bin/python3 -u train.py", "train.py --output DIR"),
        ("bash run.sh", "FILE --output DIR"),
    ],
)
def test_jobs_with_a_command_are_pointed_to_script(job: str, script: str) -> None:
    with pytest.raises(InputError, match=rf"Run it with: generic-trainer script {script}$"):
        COMMANDS["train"].make_context("train", ["--image_name=a", f"--job_command={job}"])

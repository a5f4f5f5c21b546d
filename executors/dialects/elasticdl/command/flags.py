"""The flags of all releases of ElasticDL's commands: supported flags, and obsolete flags with their replacements.

The releases are 0.1.0rc0, 0.2.0rc1 to rc3, the client 1.0.0, and the repository's last version. ElasticDL ignored
unknown flags. Here they are errors that name the most similar flag. A flag that has no effect on a command is accepted
and ignored with a message.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from .....cli.foreign_flags import removed_flags, without_removed
from .....cli.number_type import NumberType
from ....errors import InputError, did_you_mean
from ....modules.archive import archive_in
from ....number_range import INT64, POSITIVE, STEPS, TASKS, WORKERS, NumberRange

Command = TypeVar("Command", bound=Callable[..., object])
ALL = ("train", "evaluate", "predict")


@dataclasses.dataclass(frozen=True)
class Flag:
    """A supported flag.

    Attributes:
      name: The flag's name, with underscores as in ElasticDL.
      help: The help text.
      commands: Commands on which this flag has an effect.
      required: Commands that require it.
      default: The default value; None for no default.
      aliases: Its names in other releases.
      numbers: The range of a number; None for a text.
    """

    name: str
    help: str
    commands: tuple[str, ...] = ALL
    required: tuple[str, ...] = ()
    default: Any = None
    aliases: tuple[str, ...] = ()
    numbers: NumberRange | None = None


DEFAULT_OUTPUT = "elasticdl_output"
_TRAIN = ("train",)
_WITH_LABELS = ("train", "evaluate")
SUPPORTED = (
    Flag("model_zoo", "Directory of model files, or a zip archive of one.", required=ALL),
    Flag("model_def", "Model in the zoo: package.module.function_or_class.", required=ALL),
    Flag("model_params", "Arguments of the model function: 'a=1; b=2'."),
    Flag("feed", "Name of the function that turns records into features and labels.", aliases=("dataset_fn",)),
    Flag("loss", "Name of the loss function (default: loss).", commands=_WITH_LABELS),
    Flag("optimizer", "Name of the function that returns the optimizer (default: optimizer).", commands=_WITH_LABELS),
    Flag(
        "eval_metrics_fn",
        "Name of the function that returns the metrics (default: eval_metrics_fn).",
        commands=_WITH_LABELS,
    ),
    Flag("callbacks", "Name of the function that returns Keras callbacks (default: callbacks).", commands=_TRAIN),
    Flag("custom_data_reader", "Name of the function that returns a reader (default: custom_data_reader)."),
    Flag("prediction_outputs_processor", "Name of the class that processes predictions.", commands=("predict",)),
    Flag("training_data", "Training data: file, directory, pattern or table.", commands=_TRAIN, required=_TRAIN),
    Flag(
        "validation_data",
        "Evaluation data: file, directory, pattern or table.",
        commands=_WITH_LABELS,
        required=("evaluate",),
        aliases=("evaluation_data",),
    ),
    Flag(
        "prediction_data",
        "Data to predict: file, directory, pattern or table.",
        commands=("predict",),
        required=("predict",),
    ),
    Flag("data_reader_params", "Parameters of the reader: \"columns=['a', 'b']; sep=','\"."),
    Flag("minibatch_size", "Records per batch and worker (default: 64).", numbers=POSITIVE),
    Flag("num_minibatches_per_task", "Batches of --minibatch_size per task of a custom reader.", numbers=POSITIVE),
    Flag(
        "num_epochs",
        "Passes over the training data (default: 1); 0 or less repeats it until --max_step.",
        _TRAIN,
        numbers=INT64,
    ),
    Flag("max_step", "Maximum number of training steps; 0 for no limit.", _TRAIN, numbers=STEPS),
    Flag("evaluation_steps", "Steps between evaluations; 0 evaluates at epoch ends only.", _TRAIN, numbers=STEPS),
    Flag(
        "checkpoint_steps",
        "Steps between checkpoints; 0 writes the final one only (default: 0 for one worker, 500 for several).",
        _TRAIN,
        numbers=STEPS,
    ),
    Flag("checkpoint_dir", "Checkpoint directory; an unfinished job resumes from it.", commands=_TRAIN),
    Flag("keep_checkpoint_max", "Number of checkpoints to keep; 0 for all.", _TRAIN, numbers=STEPS),
    Flag(
        "checkpoint_dir_for_init",
        "Checkpoint, or checkpoint directory, to load the weights from.",
        required=("evaluate", "predict"),
        aliases=("checkpoint_filename_for_init",),
    ),
    Flag("log_loss_steps", "Steps between log lines with the loss (default: 100).", _TRAIN, numbers=STEPS),
    Flag(
        "output",
        "Output directory of the SavedModel or the predictions.",
        commands=("train", "predict"),
        default=DEFAULT_OUTPUT,
    ),
    Flag(
        "distribution_strategy",
        "Local, AllreduceStrategy or ParameterServerStrategy; the last two need --engine=ray.",
        default="Local",
    ),
    Flag("num_workers", "Alias of --workers; ignored without --engine=ray.", _TRAIN, numbers=WORKERS),
    Flag("num_ps_pods", "Alias of --ps; ignored without --engine=ray.", _TRAIN, numbers=TASKS),
)
_SCHEDULER = "processes are started by the platform, with TF_CONFIG"
_LOCAL = "training runs in this process, without tasks or a master"
IMAGE = (
    "training runs here, without an image. For a cluster, use 'generic-trainer submit --image IMAGE -- elasticdl train "
    "…', with an image that contains generic-trainer and the model file's requirements (docs/howto/kubeflow.md, Build "
    "an image); the model zoo is uploaded"
)
REMOVED = {
    **dict.fromkeys(("get_model_steps", "grads_to_wait", "sync_version_tolerance"), _LOCAL),
    **dict.fromkeys(("use_async", "lr_staleness_modulation", "use_go_ps", "task_fault_tolerance"), _LOCAL),
    **dict.fromkeys(("need_elasticdl_job_service", "need_task_manager", "need_pod_manager", "need_tf_config"), _LOCAL),
    **dict.fromkeys(("relaunch_timeout_worker", "relaunch_on_worker_failure"), _SCHEDULER),
    **dict.fromkeys(("critical_worker_index", "ps_is_critical", "ps_relaunch_max_num"), _SCHEDULER),
    **dict.fromkeys(("enable_automate_memory", "launch_worker_after_ps_running", "num_evaluators"), _SCHEDULER),
    **dict.fromkeys(("image_name", "worker_image", "ps_image", "image_base", "docker_image_repository"), IMAGE),
    **dict.fromkeys(("docker_base_url", "docker_tlscert", "docker_tlskey"), IMAGE),
    **dict.fromkeys(
        ("volume", "envs", "image_pull_policy", "restart_policy", "namespace", "cluster_spec", "yaml"), _SCHEDULER
    ),
    **dict.fromkeys(("cluster_spec_json", "aux_params", "populate_env_names", "extra_pypi_index"), _SCHEDULER),
    **dict.fromkeys(("force_use_kube_config_file",), _SCHEDULER),
    **{
        f"{role}_{what}": _SCHEDULER
        for role in ("master", "worker", "ps", "chief", "evaluator")
        for what in ("resource_request", "resource_limit", "pod_priority")
    },
    "job_name": "a run is identified by --output",
    "custom_training_loop": _LOCAL,
    "log_level": "use generic-trainer -v to show all logs",
    "log_file_path": "redirect standard error",
    "tensorboard_log_dir": "TensorBoard's logs are written to the folder printed at the end",
    "evaluation_start_delay_secs": "evaluation is scheduled by --evaluation_steps",
    "evaluation_throttle_secs": "evaluation is scheduled by --evaluation_steps",
}
_JOB_COMMAND = "job_command"
_SINGLE_PROCESS = ("", "Local")
_STRATEGIES = (*_SINGLE_PROCESS, "AllreduceStrategy", "ParameterServerStrategy")


def elasticdl_flags(command_name: str) -> Callable[[Command], Command]:
    """Returns a decorator that adds the flags of one of ElasticDL's commands and its ignored flags."""

    def add(command: Command) -> Command:
        command = removed_flags(_ignored(command_name))(command)
        command = click.option(
            f"--{_JOB_COMMAND}", hidden=True, is_eager=True, expose_value=False, callback=_refuse_job_command
        )(command)
        for flag in reversed(SUPPORTED):
            if command_name in flag.commands:
                required = command_name in flag.required
                default = {} if flag.default is None else {"default": flag.default}  # click: None is a value
                kind = NumberType(flag.numbers) if flag.numbers else str
                names = [flag.name, *(f"--{name}" for name in (flag.name, *flag.aliases))]
                command = click.option(*names, type=kind, required=required, help=flag.help, **default)(command)
        return command

    return add


def _refuse_job_command(context: click.Context, parameter: click.Parameter, command: str | None) -> None:
    """Refuses ElasticDL's jobs that run a command instead of a model file; names the command for scripts."""
    if command is None:
        return
    _, _, words = command.partition("python")
    rest = words.split()[1:] if words[:1].strip() else words.split()  # without the version of `python3.8`
    while rest and rest[0].startswith("-") and rest[0] != "-m":
        rest = rest[1:]  # options of Python
    length = 2 if rest[:1] == ["-m"] else 1
    script = [*(rest[:length] or ["FILE"]), "--output", "DIR", *(["--", *rest[length:]] if rest[length:] else [])]
    raise InputError(
        f"--job_command={command}: such a job runs a script instead of a model file. Run it with: generic-trainer "
        f"script {' '.join(script)}"
    )


def flags_of(command_name: str) -> list[str]:
    """Returns all of ElasticDL's flags that a command accepts, including those without effect."""
    names = [name for flag in SUPPORTED if command_name in flag.commands for name in (flag.name, *flag.aliases)]
    return [*names, *_ignored(command_name), _JOB_COMMAND]


def _ignored(command_name: str) -> dict[str, str]:
    """Returns {flag: reason} for the flags that have no effect on a command."""
    others = {name: flag for flag in SUPPORTED for name in (flag.name, *flag.aliases)}
    unused = [name for name, flag in others.items() if command_name not in flag.commands]
    return {**REMOVED, **dict.fromkeys(unused, f"{command_name} does not use it")}


def model_file(zoo: str, model_def: str) -> tuple[str, str]:
    """Returns the model file of --model_def below --model_zoo without running it.

    As in ElasticDL's images, the folder above the zoo is in front of `sys.path` (`import model_zoo.iris`). The zoo
    itself, which only the first release had there, is at the end.

    Args:
      zoo: The folder, or a zip file of it on any file system that TFX can read.
      model_def: The model: package.module.function_or_class.

    Returns:
      The file's path (or `module@archive.zip`) and the model's name in it.

    Raises:
      InputError: When `model_def` does not contain a dot.
    """
    path, _, model_name = model_def.rpartition(".")
    if not path:
        raise InputError(f"--model_def={model_def}: must be package.module.function, relative to --model_zoo.")
    if archive_in(zoo):
        return f"{path}@{zoo}", model_name
    sys.path.insert(0, os.path.dirname(os.path.abspath(zoo)))
    sys.path.append(os.path.abspath(zoo))
    return os.path.join(zoo, *path.split(".")) + ".py", model_name


def effective_flags(
    command_name: str, values: Mapping[str, Any], workers_possible: bool = False, ps: int = 0
) -> dict[str, Any]:
    """Returns the given flags that have an effect; prints a message to standard error for each ignored flag.

    Args:
      command_name: The command.
      values: All flags.
      workers_possible: Whether there can be several workers.
      ps: Number of parameter servers from --ps; 0 if that is not given.

    Raises:
      InputError: When the distribution strategy is unknown, needs several workers but there is one process, or is
        AllreduceStrategy with parameter servers.
    """
    used = without_removed(values, _ignored(command_name))
    given = {name: value for name, value in used.items() if value is not None}
    strategy = given.pop("distribution_strategy", "")
    if strategy not in _STRATEGIES:
        raise InputError(
            f"--distribution_strategy={strategy}: choose from {', '.join(_STRATEGIES[1:])}."
            f"{did_you_mean(strategy, _STRATEGIES)}"
        )
    if strategy not in _SINGLE_PROCESS and (command_name != "train" or given.get("num_workers") == 1):
        what = "there is only one worker" if command_name == "train" else f"{command_name} runs in this process"
        click.echo(f"--distribution_strategy={strategy} is ignored: {what}.", err=True)
        strategy = ""
    if strategy not in _SINGLE_PROCESS and not workers_possible:
        raise InputError(
            f"--distribution_strategy={strategy} needs several workers. Add --engine=ray and --workers, or use "
            "--distribution_strategy=Local."
        )
    for name, without in (("num_workers", 1), ("num_ps_pods", 0)):
        if not workers_possible and given.pop(name, without) > without:
            click.echo(f"--{name} is ignored: without --engine=ray there is only one process.", err=True)
    servers = ps or given.get("num_ps_pods", 0)
    if strategy == "AllreduceStrategy" and servers:
        raise InputError(
            f"--distribution_strategy={strategy} does not use parameter servers, but {servers} were requested. Remove "
            "--num_ps_pods or --ps, or use --distribution_strategy=ParameterServerStrategy."
        )
    if strategy == "ParameterServerStrategy" and not servers:
        click.echo("The workers train by all-reduce, because --num_ps_pods is not set.", err=True)
    return given

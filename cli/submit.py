"""`generic-trainer submit --to PLATFORM … COMMAND`: submits a command line as a job to a cluster."""

from __future__ import annotations

import dataclasses
import functools
import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ..executors.distributed.tf_config import CHIEF, EVALUATOR, MASTER, PS, WORKER
from ..executors.errors import InputError
from ..executors.number_range import CPUS, GIGABYTES, PORTS
from ..executors.options import TrainingOptions, declared_options
from ..executors.runtime.files.output_file import STDOUT
from ..pipelines.definition.code_archive import CodeArchive
from ..pipelines.submit import kuberay, kubernetes_api, train_job
from ..pipelines.submit.job_file import JobFile, kinds, read_job_file
from ..pipelines.submit.kuberay import KubeRay
from ..pipelines.submit.manifest_file import write_manifests
from ..pipelines.submit.names import JOB
from ..pipelines.submit.secrets import require_no_secrets
from ..pipelines.submit.submission import SubmittedJob
from .cluster_flag import parse_counts
from .number_type import NumberType
from .path_type import FILE
from .pod_flags import pod_flags, pop_pod_settings
from .submitted_command import CommandLine, read_command_line
from .submitted_files import pack_modules, require_reachable
from .training_flags import parse_custom_config

KUBERAY, TRAINER = PLATFORMS = ("kuberay", "kubeflow-trainer")
# Options of Ray, which without Ray become replica counts and resources in the manifest.
_REPLACED_BY_REPLICAS = (
    *("engine", "cluster"),
    *(option.name for option in declared_options() if option.needs_cluster),
)


class PlatformOption(click.Option):
    """A flag of one platform, which its help begins with."""

    def __init__(self, *names: Any, platform: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.platform, self.help = platform, f"{platform}: {self.help}"


_kuberay, _trainer = (functools.partial(click.option, cls=PlatformOption, platform=name) for name in PLATFORMS)


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--to", "platform", type=click.Choice(PLATFORMS), required=True, help="Target platform.")
@click.option("--image", default="", help="Container image with generic-trainer (kuberay: generic-trainer[kuberay]).")
@click.option("--name", default="", help="Job name (default: the module's name).")
@click.option("--output", default=STDOUT, type=FILE, help="Manifest file (default: standard output).")
@click.option("--send", "sends", is_flag=True, help="Also create the job on the platform.")
@click.option("--code-root", default="", metavar="URI", help="Where the module archive is uploaded for the job.")
@click.option("--in-image", multiple=True, metavar="FOLDER", help="Directory that the image contains; may be repeated.")
@click.option(
    "--not-secret", multiple=True, metavar="NAME", help="Name that resembles a secret's but is none; may be repeated."
)
@click.option("--service-account", default="", help="Service account of the job (default: the platform's).")
@click.option(
    "--accelerator", default="", metavar="TYPE", help="GPU type: nvidia-tesla-t4, or a node label LABEL=VALUE."
)
@_kuberay(
    "--from", "job_file", default="", type=FILE, hidden=not kinds(),
    help=f"{' or '.join(kinds())} to convert.",
)  # fmt: skip
@click.option("--namespace", default="", help="Kubernetes: namespace (default: kubectl's).")
@pod_flags
@_kuberay("--head-cpus", type=NumberType(CPUS), default=KubeRay.head_cpus, help="CPUs of the head (default: 2).")
@_kuberay(
    "--head-memory-gb",
    type=NumberType(GIGABYTES),
    default=KubeRay.head_memory_gb,
    help="memory of the head, in 10^9 bytes (default: 8).",
)
@_kuberay("--ray-version", default="", help="Ray version of the image (default: the local one).")
@_kuberay("--metrics-port", type=NumberType(PORTS), help="port of Ray's metrics in each pod.")
@_trainer(
    "--runtime",
    default="",
    metavar="NAME",
    help="ClusterTrainingRuntime to use (default: a TrainingRuntime is made for the job).",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def submit(
    command: tuple[str, ...],
    platform: str,
    image: str,
    name: str,
    output: str,
    sends: bool,
    code_root: str,
    in_image: tuple[str, ...],
    not_secret: tuple[str, ...],
    accelerator: str,
    job_file: str,
    namespace: str,
    runtime: str,
    **flags: Any,
) -> None:
    """Creates a job for KubeRay or Kubeflow Trainer from a command line.

    The job is a RayJob or a TrainJob. COMMAND is train, run or another command that trains, with its arguments.
    Workers, resources, restarts and timeout are taken from its options. For kubeflow-trainer without COMMAND, the
    result is a ClusterTrainingRuntime with the name of --runtime.

    \b
    Examples:
      generic-trainer submit --to kuberay --image IMAGE --code-root gs://bucket/code --output job.yaml \\
          -- train taxi_keras.py --train-files 'gs://bucket/taxi/train*' --output gs://bucket/out \\
             --engine ray --workers 1:4
      generic-trainer submit --to kuberay --image IMAGE --from other_job.yaml
    """  # noqa: D301 (click's mark of lines to keep)
    _require_flags_of(platform)
    pods = pop_pod_settings(flags, not_secret)
    source = read_job_file(job_file) if job_file else JobFile()
    if not (image or source.image):
        raise InputError(
            "submit needs --image: a container image with generic-trainer (for kuberay generic-trainer[kuberay]) and "
            "the module's imports."
        )
    if runtime and not command:
        _finish([train_job.cluster_runtime(runtime, image, pods)], [], output, sends)
        return
    folders = [*pods.folders, *source.folders]
    words, notes = (*source.command, *command), list(source.notes)
    if job_file and not any(word.partition("=")[0] == "--output" for word in command):
        folder = _derived_output(job_file, name or source.name, folders)
        notes.insert(0, f"The output directory is {folder}. To change it, add -- --output=DIR.")
        words = (*source.command, f"--output={folder}", *command)
    line = _parse_command(platform, words, not_secret)
    require_reachable(line, folders, in_image)
    archives = pack_modules(line, code_root, folders, in_image)
    options, evaluators = (line.options, 0) if platform == KUBERAY else _replicas(line)
    job = SubmittedJob(
        name=name or JOB.derived(source.name or _module_name(line)),
        image=image or source.image,
        command=line.words(_changes(platform, line, archives, code_root)),
        options=options,
        evaluators=evaluators,
        namespace=namespace or source.namespace,
        accelerator=accelerator,
        pods=pods,
    )
    if platform == KUBERAY:
        manifests = [kuberay.ray_job(job, KubeRay(source=source, **flags))]
        notes += kuberay.remarks(job)
    else:
        manifests = train_job.manifests(job, runtime)
        notes += train_job.remarks(job)
    if not image:
        notes.append(f"The image {job.image} is from {job_file}; it must contain generic-trainer[kuberay].")
    notes += [line.kind.note] if line.kind.note else []
    for archive in archives.values():
        archive.upload(code_root)
    _finish(manifests, notes, output, sends)


def _require_flags_of(platform: str) -> None:
    """Raises InputError if a flag of another platform is given."""
    values = click.get_current_context().params
    for option in submit.params:
        if not isinstance(option, PlatformOption) or option.platform == platform:
            continue
        if values[str(option.name)] not in (None, "", option.default):
            raise InputError(f"{option.opts[0]} requires --to {option.platform}, not --to {platform}.")


def _derived_output(job_file: str, name: str, folders: Sequence[str]) -> str:
    """Returns the output directory of a job file, which has none: a folder with its name on its first volume."""
    folder = JOB.derived(name)
    if not folders:
        raise InputError(
            f"{job_file}: the job has no volume for its outputs. Run: generic-trainer submit --to {KUBERAY} --from "
            f"{job_file} -- --output=gs://BUCKET/{folder}, or mount a volume with --volume CLAIM:/FOLDER."
        )
    return posixpath.join(folders[0], folder)


def _parse_command(platform: str, words: Sequence[str], not_secret: Sequence[str]) -> CommandLine:
    """Parses the command line, and raises InputError if it contains secrets or cannot run on the platform."""
    try:
        line = read_command_line(words)
    except click.NoSuchOption as error:
        if any(error.option_name in parameter.opts for parameter in submit.params):
            raise InputError(f"{error.option_name} is an option of submit: put it before {words[0]!r}.") from error
        raise
    for parameter, written in line.given:
        name, text = str(parameter.name), written if isinstance(written, str) else ""
        if name == "custom_config":
            text = json.dumps(parse_custom_config(text))
        require_no_secrets(line.flag(name), text, not_secret)
    if line.name == "run" and platform == TRAINER:
        raise InputError("run: a pipeline is one process; Kubeflow Trainer starts a cluster. Use --to kuberay.")
    if line.values.get("cluster") and platform == KUBERAY:
        raise InputError("--cluster starts a cluster on one machine. On Ray, use --engine ray --workers N --ps N.")
    return line


def _changes(
    platform: str, line: CommandLine, archives: Mapping[str, CodeArchive], code_root: str
) -> dict[str, str | None]:
    """Returns the changes of the command line for the platform: {parameter: new value, or None to remove it}."""
    changes: dict[str, str | None] = {}
    for name, archive in archives.items():
        reference = archive.path if line.kind.file_in else archive.reference
        changes[name] = reference(code_root)
    if str(line.values.get("custom_config") or "").startswith("@"):  # a file on this machine
        changes["custom_config"] = json.dumps(parse_custom_config(line.values["custom_config"]))
    if platform != KUBERAY:
        counts = line.kind.counts
        own = (counts.workers, counts.servers) if counts else ()
        changes.update(dict.fromkeys((*_REPLACED_BY_REPLICAS, *own, *line.kind.replaced)))
    return changes


def _replicas(line: CommandLine) -> tuple[TrainingOptions, int]:
    """Returns the options with the number of workers and parameter servers, and the number of evaluators.

    They are taken from --engine ray with --workers and --ps, or from --cluster.
    """
    options = line.options
    if address := line.values.get("cluster_address"):
        raise InputError(f"--cluster-address {address}: the job does not use a Ray cluster.")
    if not line.values.get("cluster"):
        return options, 0
    if "workers" in {parameter.name for parameter, _ in line.given}:
        raise InputError("--cluster and --workers both set the number of workers. Give one of them.")
    counts = parse_counts(line.values["cluster"])
    training = sum(counts.get(role, 0) for role in (CHIEF, MASTER, WORKER))
    counted = dataclasses.replace(options, engine=kuberay.RAY, workers=str(training), ps=counts.get(PS, 0))
    return counted, counts.get(EVALUATOR, 0)


def _module_name(line: CommandLine) -> str:
    """Returns the module's name, from which the job's default name is derived."""
    reference = str(line.values[line.kind.named_by or line.kind.module]).partition("@")[0]
    return posixpath.basename(reference).removesuffix(".py")


def _finish(manifests: Sequence[Mapping[str, Any]], notes: Sequence[str], output: str, sends: bool) -> None:
    """Shows the notes, writes the manifests, and creates them on the platform if the user wishes."""
    for note in notes:
        click.echo(f"Note: {note}", err=True)
    write_manifests(output, manifests, "\n".join(notes))
    if output != STDOUT:
        click.echo(f"Wrote {output}; to start the job: kubectl create -f {output}", err=True)
    if sends:
        click.echo(f"Created {' and '.join(kubernetes_api.create(manifests))}.", err=True)

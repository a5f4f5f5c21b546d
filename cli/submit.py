"""`generic-trainer submit --to PLATFORM … COMMAND`: submits a command line as a job to a cluster."""

from __future__ import annotations

import dataclasses
import functools
import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import click
import yaml

from ..executors.distributed.tf_config import CHIEF, EVALUATOR, MASTER, PS, WORKER
from ..executors.errors import InputError
from ..executors.number_range import CPUS, GIGABYTES, PORTS
from ..executors.options import TrainingOptions, declared_options
from ..executors.runtime.files.output_file import STDOUT, write_output
from ..pipelines.definition.code_archive import CodeArchive
from ..pipelines.submit import kuberay, kubernetes_api, train_job, vertex
from ..pipelines.submit.job_file import JobFile, kinds, read_job_file
from ..pipelines.submit.secrets import require_no_secrets
from ..pipelines.submit.submission import SubmittedJob, derived_name
from ..pipelines.submit.vertex import Vertex
from .cluster_flag import parse_counts
from .number_type import NumberType
from .path_type import FILE
from .pod_flags import pod_flags, pop_pod_settings, require_only
from .submit_request import KUBERAY, PLATFORMS, TRAINER, VERTEX, PlatformOption, SubmitRequest
from .submitted_command import CommandLine, read_command_line
from .submitted_files import pack_modules, require_reachable
from .training_flags import parse_custom_config

# Options of Ray, which without Ray become replica counts and resources in the manifest.
_REPLACED_BY_REPLICAS = (
    *("engine", "cluster"),
    *(option.name for option in declared_options() if option.needs_cluster),
)
_kuberay, _trainer, _vertex = (
    functools.partial(click.option, cls=PlatformOption, platform=platform) for platform in PLATFORMS
)


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
@_kuberay("--head-cpus", type=NumberType(CPUS), help="CPUs of the head (default: 2).")
@_kuberay("--head-memory-gb", type=NumberType(GIGABYTES), help="memory of the head, in 10^9 bytes (default: 8).")
@_kuberay("--ray-version", default="", help="Ray version of the image (default: the local one).")
@_kuberay("--metrics-port", type=NumberType(PORTS), help="port of Ray's metrics in each pod.")
@_trainer(
    "--runtime",
    default="",
    metavar="NAME",
    help="ClusterTrainingRuntime to use (default: a TrainingRuntime is made for the job).",
)
@_vertex("--project", default="", help="Google Cloud project; required with --send.")
@_vertex("--region", default="", help="Google Cloud region; required with --send.")
@_vertex("--staging-bucket", default="", metavar="URI", help="gs:// URI for Vertex AI's own outputs.")
@_vertex("--machine-type", default="", help="machine type of each replica, such as n1-standard-8; required.")
@_vertex("--ps-machine-type", default="", help="machine type of parameter servers (default: --machine-type).")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def submit(command: tuple[str, ...], **flags: Any) -> None:
    """Creates a job for KubeRay, Kubeflow Trainer or Vertex AI from a command line.

    The job is a RayJob, a TrainJob or a CustomJob. COMMAND is train, run or another command that trains, with its
    arguments. Workers, resources, restarts and timeout are taken from its options. For kubeflow-trainer without
    COMMAND, the result is a ClusterTrainingRuntime with the name of --runtime.

    \b
    Examples:
      generic-trainer submit --to kuberay --image IMAGE --code-root gs://bucket/code --output job.yaml \\
          -- train taxi_keras.py --train-files 'gs://bucket/taxi/train*' --output gs://bucket/out \\
             --engine ray --workers 1:4
      generic-trainer submit --to kuberay --image IMAGE --from other_job.yaml
    """  # noqa: D301 (click's mark of lines to keep)
    platform = flags["platform"]
    for option in submit.params:
        if isinstance(option, PlatformOption):
            option.require_for(platform, flags[str(option.name)])
    if platform == VERTEX:
        require_only(flags, ("labels", "env"), VERTEX)
    request = SubmitRequest(pods=pop_pod_settings(flags, flags["not_secret"]), **flags)
    if request.platform == TRAINER and request.runtime and not command:
        _require_image(request.image)
        runtime = train_job.cluster_runtime(request.runtime, request.image, request.kubeflow_trainer())
        _finish(request, [runtime], [])
        return
    job_file = read_job_file(request.job_file) if request.job_file else None
    folders = request.folders(job_file)
    notes: list[str] = []
    if job_file and not any(word.partition("=")[0] == "--output" for word in command):
        output = _derived_output(request, job_file, folders)
        notes.append(f"The output directory is {output}. To change it, add -- --output=DIR.")
        command = (f"--output={output}", *command)
    line = _parse_command(request, [*(job_file.command if job_file else ()), *command])
    require_reachable(line, folders, request.in_image, request.hint)
    archives = pack_modules(line, request.code_root, folders, request.in_image)
    job = _job(request, line, archives, job_file)
    manifests, more = _manifests(request, job, job_file)
    notes += more
    notes += [line.kind.note] if line.kind.note else []
    for archive in archives.values():
        archive.upload(request.code_root)
    _finish(request, manifests, notes)


def _finish(request: SubmitRequest, manifests: Sequence[Mapping[str, Any]], notes: list[str]) -> None:
    """Writes the manifests, and creates them on the platform if the user wishes."""
    _write(request, manifests, notes)
    if not request.sends:
        return
    if request.platform == VERTEX:
        created = [vertex.send(manifests[0], request.project, request.region)]
    else:
        created = kubernetes_api.create(manifests)
    click.echo(f"Created {' and '.join(created)}.", err=True)


def _derived_output(request: SubmitRequest, job_file: JobFile, folders: Sequence[str]) -> str:
    """Returns the output directory of a job file, which has none: a folder with its name on its first volume."""
    name = request.name or derived_name(job_file.name, kuberay.LONGEST_NAME)
    if not folders:
        raise InputError(
            f"{request.job_file}: the job has no volume for its outputs. Run: generic-trainer submit --to "
            f"{request.platform} --from {request.job_file} -- --output=gs://BUCKET/{name}, or mount a volume with "
            "--volume CLAIM:/FOLDER."
        )
    return posixpath.join(folders[0], name)


def _parse_command(request: SubmitRequest, words: Sequence[str]) -> CommandLine:
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
        require_no_secrets(line.flag(name), text, request.not_secret)
    if line.name == "run" and request.platform == VERTEX:
        raise InputError(
            "run: a pipeline stores its metadata in SQLite, which needs a persistent file system; Vertex AI jobs have "
            "none. Submit it with --to kuberay and a volume, or submit train."
        )
    if line.name == "run" and request.platform == TRAINER:
        raise InputError("run: a pipeline is one process; Kubeflow Trainer starts a cluster. Use --to kuberay.")
    if line.values.get("cluster") and request.platform == KUBERAY:
        raise InputError("--cluster starts a cluster on one machine. On Ray, use --engine ray --workers N --ps N.")
    return line


def _job(
    request: SubmitRequest, line: CommandLine, archives: Mapping[str, CodeArchive], job_file: JobFile | None
) -> SubmittedJob:
    image = request.image or (job_file.image if job_file else "")
    _require_image(image)
    options, evaluators = (line.options, 0) if request.platform == KUBERAY else _replicas(line)
    return SubmittedJob(
        name=request.name or derived_name(job_file.name if job_file else _module_name(line), kuberay.LONGEST_NAME),
        image=image,
        command=line.words(_changes(request, line, archives)),
        options=options,
        evaluators=evaluators,
        service_account=request.service_account,
        accelerator=request.accelerator,
        output=str(line.values["output"]) if "output" in line.values else "",
    )


def _require_image(image: str) -> None:
    if not image:
        raise InputError(
            "submit needs --image: a container image with generic-trainer (for kuberay generic-trainer[kuberay]) and "
            "the module's imports."
        )


def _changes(request: SubmitRequest, line: CommandLine, archives: Mapping[str, CodeArchive]) -> dict[str, str | None]:
    """Returns the changes of the command line for the platform: {parameter: new value, or None to remove it}."""
    changes: dict[str, str | None] = {}
    for name, archive in archives.items():
        reference = archive.path if line.kind.file_in else archive.reference
        changes[name] = reference(request.code_root)
    if str(line.values.get("custom_config") or "").startswith("@"):  # a file on this machine
        changes["custom_config"] = json.dumps(parse_custom_config(line.values["custom_config"]))
    if request.platform != KUBERAY:
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


def _manifests(
    request: SubmitRequest, job: SubmittedJob, job_file: JobFile | None
) -> tuple[Sequence[Mapping[str, Any]], list[str]]:
    """Returns the manifests, and notes to show to the user."""
    if request.platform == VERTEX:
        output = request.staging_bucket or (job.output if job.output.startswith("gs://") else "")
        pods = request.pods
        place = Vertex(request.machine_type, request.ps_machine_type, output, dict(pods.labels), dict(pods.env))
        return [vertex.custom_job(job, place)], vertex.remarks(job)
    if request.platform == TRAINER:
        return train_job.manifests(job, request.kubeflow_trainer()), train_job.remarks(job)
    manifest = kuberay.ray_job(job, request.kuberay(job_file))
    notes = [*(job_file.notes if job_file else ()), *kuberay.remarks(job, request.pods.queue)]
    if job_file and not request.image:
        notes.append(f"The image {job.image} is from {request.job_file}; it must contain generic-trainer[kuberay].")
    return [manifest], notes


def _write(request: SubmitRequest, manifests: Sequence[Mapping[str, Any]], notes: list[str]) -> None:
    for note in notes:
        click.echo(f"Note: {note}", err=True)
    is_spec = request.platform == VERTEX and request.output.endswith((".yaml", ".yml"))
    documents = [manifests[0]["jobSpec"]] if is_spec else manifests
    if is_spec or (request.platform != VERTEX and not request.output.endswith(".json")):
        comments = "".join(f"# {line}\n" for note in notes for line in note.splitlines())
        # Parsing the JSON text removes shared objects, which YAML would write as anchors and aliases.
        plain = [json.loads(json.dumps(one, default=str)) for one in documents]
        text = comments + yaml.safe_dump_all(plain, sort_keys=False, allow_unicode=True, width=110)
    else:
        whole = documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents}
        text = json.dumps(whole, indent=2, ensure_ascii=False, default=str) + "\n"
    try:
        write_output(request.output, text)
    except OSError as error:
        raise InputError(f"--output {request.output}: cannot write there ({error.strerror or error}).") from error
    if request.output == STDOUT:
        return
    if request.platform != VERTEX:
        how = f"kubectl create -f {request.output}"
    elif is_spec:
        how = vertex.gcloud_command(manifests[0], request.output, request.project, request.region)
    else:
        region, project = request.region or "REGION", request.project or "PROJECT"
        parent = f"https://{region}-aiplatform.googleapis.com/v1/projects/{project}/locations/{region}"
        how = f"POST it to {parent}/customJobs, use --send, or write YAML for gcloud"
    click.echo(f"Wrote {request.output}; to start the job: {how}", err=True)

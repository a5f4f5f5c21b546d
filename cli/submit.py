"""`generic-trainer submit --to kuberay|vertex … COMMAND`: the same command line, as a job on other machines."""

from __future__ import annotations

import dataclasses
import json
import posixpath
from collections.abc import Mapping
from typing import Any

import click
import yaml

from ..executors import file_io
from ..executors.errors import InputError
from ..executors.local_cluster import parse_counts
from ..pipelines import kuberay, vertex_job
from ..pipelines.clear_text import require_no_secrets
from ..pipelines.elastic_job import ElasticJob, read_elastic_job
from ..pipelines.kuberay import KubeRay, Volume
from ..pipelines.submission import SubmittedJob, derived_name, is_reachable
from ..pipelines.vertex_job import Vertex
from .submitted_command import CommandLine, read_command_line
from .submitted_files import MODULES, packed, require_reachable
from .training_flags import parse_custom_config

KUBERAY, VERTEX = "kuberay", "vertex"
_ONLY = {
    "namespace": KUBERAY, "volumes": KUBERAY, "env_secrets": KUBERAY, "elastic_job": KUBERAY, "head_cpus": KUBERAY,
    "head_memory_gb": KUBERAY, "ray_version": KUBERAY,
    "project": VERTEX, "region": VERTEX, "staging_bucket": VERTEX, "machine_type": VERTEX,
}  # fmt: skip
_HINTS = {
    KUBERAY: "Give URIs such as gs://bucket/…, or folders of a volume that --volume CLAIM:/FOLDER mounts.",
    VERTEX: f"Give gs://bucket/… or {vertex_job.BUCKETS}/bucket/….",
}
# What Ray is told on the command line is replica counts and machines on Vertex AI.
_NOT_ON_VERTEX = (
    *("engine", "workers", "ps", "cluster", "max_failures"),
    *("cpus_per_worker", "gpus_per_worker", "memory_gb_per_worker"),
)


@dataclasses.dataclass(frozen=True)
class _Request:
    """The flags of `submit`, as they were given."""

    platform: str
    image: str
    name: str
    output: str
    sends: bool
    code_root: str
    in_image: tuple[str, ...]
    not_secret: tuple[str, ...]
    service_account: str
    accelerator: str
    elastic_job: str = ""
    namespace: str = ""
    volumes: tuple[str, ...] = ()
    env_secrets: tuple[str, ...] = ()
    head_cpus: float | None = None
    head_memory_gb: float | None = None
    ray_version: str = ""
    project: str = ""
    region: str = ""
    staging_bucket: str = ""
    machine_type: str = ""


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--to", "platform", type=click.Choice([KUBERAY, VERTEX]), required=True, help="Where the job runs.")
@click.option("--image", default="", help="Container image with generic-trainer (default with --from: the job's own).")
@click.option("--name", default="", help="The job's name (default: the module's).")
@click.option("--output", default="-", metavar="FILE", help="Where the manifest is written (default: shown).")
@click.option("--send", "sends", is_flag=True, help="Create the job on the platform as well.")
@click.option("--code-root", default="", metavar="URI", help="Where an archive of the module is put for the job.")
@click.option("--in-image", multiple=True, metavar="FOLDER", help="A folder that the image has; may be repeated.")
@click.option("--not-secret", multiple=True, metavar="NAME", help="A name that only looks like a secret's.")
@click.option("--service-account", default="", help="Whom the job acts as.")
@click.option("--accelerator", default="", metavar="TYPE", help="Which GPU: nvidia-tesla-t4, or LABEL=VALUE of nodes.")
@click.option("--from", "elastic_job", default="", metavar="FILE", help="kuberay: a DLRover ElasticJob to translate.")
@click.option("--namespace", default="", help="kuberay: the namespace (default: kubectl's).")
@click.option("--volume", "volumes", multiple=True, metavar="CLAIM:/FOLDER[:ro]", help="kuberay: a claim to mount.")
@click.option("--env-secret", "env_secrets", multiple=True, metavar="SECRET", help="kuberay: a Secret as environment.")
@click.option("--head-cpus", type=click.FloatRange(0, min_open=True), help="kuberay: processors of the head.")
@click.option("--head-memory-gb", type=click.FloatRange(0, min_open=True), help="kuberay: memory of the head.")
@click.option("--ray-version", default="", help="kuberay: the image's Ray (default: this machine's).")
@click.option("--project", default="", help="vertex: the Google Cloud project, for --send.")
@click.option("--region", default="", help="vertex: its region, for --send.")
@click.option("--staging-bucket", default="", metavar="URI", help="vertex: gs:// folder for Vertex AI's own outputs.")
@click.option("--machine-type", default="", help="vertex: machine of each replica (default: the smallest that fits).")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def submit(command: tuple[str, ...], **flags: Any) -> None:
    """Makes a job of a command line: a RayJob for KubeRay, or a CustomJob for Vertex AI.

    COMMAND is what one would run here: train, run, elasticdl train or dlrover, with its arguments. Workers, resources,
    failures and timeout are taken from its options.

    \b
    Examples:
      generic-trainer submit --to kuberay --image IMAGE --code-root gs://bucket/code --output job.yaml \\
          -- train taxi_keras.py --train-files 'gs://bucket/taxi/train*' --output gs://bucket/out \\
             --engine ray --workers 1:4
      generic-trainer submit --to kuberay --image IMAGE --from elasticjob.yaml
    """  # noqa: D301 (click's mark of lines to keep)
    request = _Request(**flags)
    _require_its_own(request)
    line, place, elastic = _read(request, command)
    notes = list(elastic.notes) if elastic else []
    folders = [vertex_job.BUCKETS] if request.platform == VERTEX else [volume.path for volume in place.volumes]
    folders += elastic.folders if elastic else ()
    require_reachable(line, folders, request.in_image, _HINTS[request.platform])
    if request.code_root and not is_reachable(request.code_root, folders):
        raise InputError(f"--code-root {request.code_root}: the job cannot read there. {_HINTS[request.platform]}")
    archive = packed(line, request.code_root, folders, request.in_image)
    changes: dict[str, str | None] = {}
    if archive:
        is_zoo = line.command.startswith("elasticdl")
        changes[MODULES[line.command]] = (archive.path if is_zoo else archive.reference)(request.code_root)
    job, more = _job(request, line, changes, elastic)
    if request.platform == KUBERAY:
        manifest = kuberay.ray_job(job, place)
        notes += [*more, *kuberay.remarks(job, place)]
    else:
        manifest = vertex_job.custom_job(job, Vertex(request.machine_type, _vertex_output(request, line)))
        notes += [*more, *vertex_job.remarks(job)]
    if line.command == "dlrover":
        notes.append("The conf's model_dir and data have to be URIs or on a volume; checkpoints and exports go there.")
    if archive:
        archive.upload(request.code_root)
    _write(request, manifest, notes)
    if request.sends:
        click.echo(f"Created {_send(request, manifest)}", err=True)


def _require_its_own(request: _Request) -> None:
    """Refuses flags that the other platform has."""
    for name, platform in _ONLY.items():
        if platform != request.platform and getattr(request, name):
            flag = {"elastic_job": "from", "volumes": "volume", "env_secrets": "env-secret"}.get(name, name)
            raise InputError(f"--{flag.replace('_', '-')} is for --to {platform}, and this is {request.platform}.")
    if request.platform == VERTEX and request.sends and not (request.project and request.region):
        raise InputError("--send needs --project and --region.")
    if request.staging_bucket and not request.staging_bucket.startswith("gs://"):
        raise InputError(f"--staging-bucket {request.staging_bucket}: give a gs:// URI.")


def _read(request: _Request, command: tuple[str, ...]) -> tuple[CommandLine, KubeRay, ElasticJob | None]:
    """Reads the command line, or the ElasticJob with more arguments for its command."""
    elastic = read_elastic_job(request.elastic_job) if request.elastic_job else None
    words = [*elastic.command, *command] if elastic else list(command)
    try:
        line = read_command_line(words)
    except click.NoSuchOption as error:
        if any(error.option_name in parameter.opts for parameter in submit.params):
            raise InputError(f"{error.option_name} belongs to submit: give it before {words[0]!r}.") from error
        raise
    _require_no_secrets(request, line)
    if line.command == "run" and request.platform == VERTEX:
        raise InputError(
            "run: a pipeline keeps its metadata in SQLite, which needs a real file system; Vertex AI's jobs have none "
            "that stays. Submit it --to kuberay with a volume, or submit train."
        )
    if line.values.get("cluster") and request.platform == KUBERAY:
        raise InputError("--cluster tries a cluster on one machine. On Ray give --engine ray --workers N --ps N.")
    place = KubeRay(
        namespace=request.namespace or (elastic.namespace if elastic else ""),
        volumes=tuple(map(Volume.parse, request.volumes)),
        env_secrets=request.env_secrets,
        head_cpus=request.head_cpus or KubeRay.head_cpus,
        head_memory_gb=request.head_memory_gb or KubeRay.head_memory_gb,
        ray_version=request.ray_version,
        metadata=elastic.metadata if elastic else {},
        pod_template=elastic.pod_template if elastic else {},
        folder=elastic.folder if elastic else "",
        suspend=elastic.suspend if elastic else False,
    )
    return line, place, elastic


def _require_no_secrets(request: _Request, line: CommandLine) -> None:
    for parameter, written in line.given:
        name = str(parameter.name)
        text = written if isinstance(written, str) else ""
        if name == "custom_config":
            text = json.dumps(parse_custom_config(text))
        require_no_secrets(line.flag(name), text, request.not_secret)


def _job(
    request: _Request, line: CommandLine, changes: dict[str, str | None], elastic: ElasticJob | None
) -> tuple[SubmittedJob, list[str]]:
    """Returns the job, and what of the command line was changed that one should know."""
    image = request.image or (elastic.image if elastic else "")
    if not image:
        raise InputError("submit needs --image: one that holds generic-trainer and what the module imports.")
    notes = []
    if elastic and not request.image:
        notes.append(f"The image {image} is the ElasticJob's own: it has to hold generic-trainer[ray].")
    if str(line.values.get("custom_config") or "").startswith("@"):  # a file of this machine
        changes["custom_config"] = json.dumps(parse_custom_config(line.values["custom_config"]))
    options, evaluators = line.options, 0
    if request.platform == VERTEX:
        counts = parse_counts(line.values["cluster"]) if line.values.get("cluster") else {}
        if counts and "workers" in {parameter.name for parameter, _ in line.given}:
            raise InputError("--cluster and --workers both say how many there are. Give one of them.")
        if options.cluster_address:
            raise InputError(f"--cluster-address {options.cluster_address}: Vertex AI's jobs use no Ray cluster.")
        if counts:
            training = sum(counts.get(role, 0) for role in ("chief", "master", "worker"))
            evaluators = counts.get("evaluator", 0)
            options = dataclasses.replace(options, engine="ray", workers=str(training), ps=counts.get("ps", 0))
        changes.update(dict.fromkeys(_NOT_ON_VERTEX))
    name = request.name or derived_name(elastic.name if elastic else _subject(line), kuberay.LONGEST_NAME)
    job = SubmittedJob(
        name=name,
        image=image,
        command=line.words(changes),
        options=options,
        evaluators=evaluators,
        service_account=request.service_account,
        accelerator=request.accelerator,
    )
    return job, notes


def _subject(line: CommandLine) -> str:
    """Returns what a job is called when nobody said: the module's name."""
    if line.command.startswith("elasticdl"):
        return str(line.values["model_def"])
    reference = str(line.values[MODULES[line.command]]).partition("@")[0]
    return posixpath.basename(reference).removesuffix(".py")


def _vertex_output(request: _Request, line: CommandLine) -> str:
    output = str(line.values["output"])
    return request.staging_bucket or (output if output.startswith("gs://") else "")


def _write(request: _Request, manifest: Mapping[str, Any], notes: list[str]) -> None:
    for note in notes:
        click.echo(f"Note: {note}", err=True)
    text = json.dumps(manifest, indent=2, ensure_ascii=False, default=str) + "\n"
    if request.platform == KUBERAY and not request.output.endswith(".json"):
        comments = "".join(f"# {line}\n" for note in notes for line in note.splitlines())
        # Read back from JSON, nothing in it is the same object twice, which YAML would write as a reference.
        text = comments + yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True, width=110)
    if request.output == "-":
        click.echo(text, nl=False)
        return
    try:
        file_io.write_text(request.output, text)
    except OSError as error:
        raise InputError(f"--output {request.output}: cannot write there ({error.strerror or error}).") from error
    click.echo(f"The {'RayJob' if request.platform == KUBERAY else 'CustomJob'} is in {request.output}.", err=True)


def _send(request: _Request, manifest: Mapping[str, Any]) -> str:
    if request.platform == KUBERAY:
        return kuberay.send(manifest)
    return vertex_job.send(manifest, request.project, request.region)

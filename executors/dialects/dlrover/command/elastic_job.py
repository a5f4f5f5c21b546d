"""Translates DLRover's `ElasticJob` manifests to command lines of generic-trainer, with notes on unsupported fields.

    job = read_job_file("elasticjob.yaml")
    job.command     # ("dlrover", "--conf=train_conf.TrainConf", "--engine=ray", "--workers=3", "--ps=2", …)
    job.notes       # one line per field that was left out

The format is DLRover's custom resource definition (its dlrover/go/operator/config/crd), version v1alpha1.
The number of workers is that of chief and worker replicas together. Without a chief replica DLRover makes one of the
workers the chief; here all of them train.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from .....pipelines.submit.accelerators import GPU
from .....pipelines.submit.job_file import JobFile
from ....errors import InputError
from ....number_range import RETRIES, TASKS, NumberRange
from .quantities import gigabytes, processors
from .trainer_call import TrainerCall, find_call

GROUP = "elastic.iml.github.io"
_ROLES = ("chief", "worker", "ps", "evaluator")
_TRAINERS = ("worker", "chief")  # template, resources and command are taken from the first that exists
_LISTS = ("command", "args", "env", "envFrom", "volumeMounts", "volumes", "tolerations")
_REASONS = {
    "optimizeMode": "there is no DLRover master or Brain to optimize resources",
    "brainService": "there is no DLRover master or Brain to optimize resources",
    "resourceLimits": "the job does not scale beyond --workers MIN:MAX",
    "dlrover-master": "Ray and KubeRay replace it",
    "autoScale": "for elastic workers, add --workers MIN:MAX after --",
    "enable_auto_scaling": "for elastic workers, add --workers MIN:MAX after --",
    "platform": "the platform is KubeRay",
    "restartPolicy": "KubeRay sets it",
    "evaluator": "on Ray the chief evaluates",
}


def translate(path: str, document: dict[str, Any]) -> JobFile:
    """Translates an ElasticJob of a YAML file.

    Raises:
      InputError: When the job does not match DLRover's definition, or its command does not run DLRover's TensorFlow
        trainer.
    """
    version = str(document.get("apiVersion"))
    if version.partition("/")[0] != GROUP:
        raise InputError(f"--from {path}: apiVersion is {version!r}, not {GROUP}/v1alpha1.")
    try:
        return _Translation(path, document).job()
    except InputError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # a field of a wrong type
        raise InputError(
            f"{path} does not match DLRover's definition of ElasticJob ({type(error).__name__}: {error}). Validate it "
            "with kubectl create --dry-run=server."
        ) from error


class _Translation:
    """The translation of one ElasticJob: translated fields are removed, and the remaining ones are noted at the end."""

    def __init__(self, path: str, document: Mapping[str, object]) -> None:
        self._path = path
        self._notes: list[str] = []
        self._metadata = self._mapping(document, "metadata")
        self._spec = self._mapping(document, "spec")
        self._replicas = self._mapping(self._spec, "replicaSpecs")

    def job(self) -> JobFile:
        specs = {role: self._mapping(self._replicas, role) for role in _ROLES if role in self._replicas}
        trainers = [role for role in _TRAINERS if role in specs and specs[role].get("template")]
        if not trainers:
            raise InputError(f"{self._path}: spec.replicaSpecs has no worker and no chief with a template.")
        lead = trainers[0]
        counts = {role: self._count(role, spec) for role, spec in specs.items()}
        training = counts.get("worker", 0) + counts.get("chief", 0)
        if not training:
            raise InputError(f"{self._path}: spec.replicaSpecs has no replicas of worker or chief.")
        templates = {role: self._mapping(spec, "template") for role, spec in specs.items()}
        calls = {role: self._call(role, template) for role, template in templates.items() if role == lead or template}
        resources = self._resource_flags(templates, lead)
        self._note_differences(lead, templates, calls)
        container, call = _container(templates[lead]), calls[lead]
        words = ["dlrover", f"--conf={call.flags.pop('conf')}", "--engine=ray", f"--workers={training}"]
        words += [f"--ps={counts['ps']}"] if counts.get("ps") else []
        words += resources
        words += [f"--max-failures={count}" for count in self._restarts(specs, lead)]
        self._note_command(lead, call, container)
        image = str(container.pop("image", ""))
        container.pop("name", None)
        if policy := templates[lead]["spec"].pop("restartPolicy", ""):
            self._note(f"{lead}: restartPolicy", policy, "restartPolicy")
        container["env"] = [*container.get("env", []), *self._variables()]
        name, namespace = str(self._metadata.pop("name", "")), str(self._metadata.pop("namespace", ""))
        metadata = {key: self._metadata.pop(key) for key in list(self._metadata) if key in ("labels", "annotations")}
        suspend = bool(self._spec.pop("suspend", False))
        if str(self._spec.get("distributionStrategy")).startswith("ParameterServer"):
            del self._spec["distributionStrategy"]  # expressed by --ps
        self._note_remaining_fields(counts, specs)
        mounts = container.get("volumeMounts", [])
        return JobFile(
            name,
            namespace,
            metadata,
            image,
            tuple(words),
            _without_empty(templates[lead]),
            call.folder,
            tuple(str(mount["mountPath"]) for mount in mounts if mount.get("mountPath")),
            suspend,
            tuple(self._notes),
        )

    def _note(self, where: str, value: object, key: str, why: str = "") -> None:
        reason = why or _REASONS.get(key, "there is no equivalent")
        shown = value if isinstance(value, str) else json.dumps(value, default=str)
        self._notes.append(f"{where}: {shown[:200]} was left out: {reason}.")

    def _mapping(self, parent: Mapping[str, object], key: str) -> dict[str, Any]:
        value = parent.get(key) or {}
        if not isinstance(value, dict):
            raise InputError(f"{self._path}: {key} must be a mapping, not {value!r}.")
        return value

    def _count(self, role: str, spec: dict[str, object]) -> int:
        if "replicas" not in spec:
            self._notes.append(f"{role}: replicas is not set; using 1.")
        count = spec.pop("replicas", 1)
        return self._whole(count, TASKS, f"{role}.replicas")

    def _whole(self, value: object, numbers: NumberRange, field: str) -> int:
        if not isinstance(value, int) or not numbers.includes(value):
            raise InputError(f"{self._path}: replicaSpecs.{field} must be {numbers}, not {value!r}.")
        return value

    def _call(self, role: str, template: dict[str, Any]) -> TrainerCall:
        where = f"{self._path}: {role}"
        containers = self._mapping(template, "spec").get("containers")
        if not isinstance(containers, list) or not containers or not isinstance(containers[0], dict):
            raise InputError(f"{where}: its template has no containers.")
        container = containers[0]
        for part in (container, template["spec"]):
            for key in _LISTS:
                if part.get(key) is None:
                    part.pop(key, None)
                elif not isinstance(part[key], list):
                    raise InputError(f"{where}: {key} must be a list, not {part[key]!r}.")
        command = [str(word) for key in ("command", "args") for word in container.pop(key, None) or ()]
        call = find_call(command, where)
        if not call.flags.get("conf"):
            raise InputError(f"{where}: its command has no --conf.")
        return call

    def _resource_flags(self, templates: Mapping[str, Mapping[str, object]], lead: str) -> list[str]:
        """Returns the resource flags: the maximum over the roles, as on Ray all roles get the same resources."""
        by_role = {role: self._resources(role, template) for role, template in templates.items() if template}
        highest = {name: max(amounts.get(name, 0.0) for amounts in by_role.values()) for name in ("cpu", "memory")}
        for role, amounts in by_role.items():
            for name, amount in highest.items():
                if role != "evaluator" and amounts.get(name) and amounts[name] != amount:
                    self._notes.append(
                        f"{role}: {name} is {amount:g} as for the other roles, instead of {amounts[name]:g}."
                    )
        gpus = by_role[lead].get(GPU, 0.0)
        flags = {"cpus-per-worker": highest["cpu"], "gpus-per-worker": gpus, "memory-gb-per-worker": highest["memory"]}
        return [f"--{name}={amount:.10g}" for name, amount in flags.items() if amount]

    def _resources(self, role: str, template: Mapping[str, object]) -> dict[str, float]:
        resources = _container(template).pop("resources", None) or {}
        requested, limits = resources.pop("requests", None) or {}, resources.pop("limits", None) or {}
        amounts: dict[str, float] = {}
        for name in {**requested, **limits}:
            text = limits.get(name, requested.get(name))
            where = f"{self._path}: {role}: resources.{name}"
            if name == "memory":
                amounts[name] = gigabytes(text, where)
            elif name in ("cpu", GPU):
                amounts[name] = processors(text, where)
            else:
                self._note(f"{role}: resources.{name}", str(text), name)
            if requested.get(name, text) != text:
                self._notes.append(
                    f"{role}: the {name} request of {requested[name]} was replaced by the limit, {text}."
                )
        if resources:
            self._note(f"{role}: resources", resources, "resources")
        return amounts

    def _restarts(self, specs: Mapping[str, dict[str, Any]], lead: str) -> Iterator[int]:
        counts = {role: spec.pop("restartCount") for role, spec in specs.items() if "restartCount" in spec}
        for role, count in counts.items():
            self._whole(count, RETRIES, f"{role}.restartCount")
            if role != lead and count != counts.get(lead):
                self._note(f"{role}: restartCount", count, "restartCount", "failures are counted for the whole job")
        if lead in counts:
            yield counts[lead]

    def _note_differences(
        self, lead: str, templates: Mapping[str, Mapping[str, object]], calls: Mapping[str, TrainerCall]
    ) -> None:
        """Notes how templates of other roles differ from the lead role's, which on Ray all workers use."""
        lead_fields = _described_fields(templates[lead], calls[lead])
        for role, template in templates.items():
            if role == lead or not template:
                continue
            for key, value in _described_fields(template, calls[role]).items():
                if value and value != lead_fields.get(key):
                    self._note(f"{role}: {key}", value, key, f"all roles use the {lead}'s")

    def _note_command(self, lead: str, call: TrainerCall, container: dict[str, Any]) -> None:
        container["env"] = [
            *container.get("env", []),
            *({"name": name, "value": value} for name, value in call.environment.items()),
        ]
        for other in call.others:
            self._note(f"{lead}: the command", other, "command", "include its results in the image")
        for name, value in call.flags.items():
            self._note(f"{lead}: --{name}", value or "(no value)", name)

    def _variables(self) -> list[dict[str, object]]:
        variables = self._mapping(self._spec, "envs")
        self._spec.pop("envs", None)
        return [{"name": name, **(value or {})} for name, value in variables.items()]

    def _note_remaining_fields(self, counts: Mapping[str, int], specs: Mapping[str, Mapping[str, object]]) -> None:
        for role in [role for role in self._replicas if role not in _ROLES]:
            self._note(f"replicaSpecs.{role}", self._replicas[role], role)
        if counts.get("evaluator"):
            self._note("replicaSpecs.evaluator", f"{counts['evaluator']} replicas", "evaluator")
        for role, spec in specs.items():
            for key, value in spec.items():
                if key != "template" and (key, value) != ("autoScale", False):  # fixed here, too
                    self._note(f"{role}: {key}", value, key)
        for key, value in self._spec.items():
            if key != "replicaSpecs":
                self._note(f"spec.{key}", value, key)
        for key, value in self._metadata.items():
            self._note(f"metadata.{key}", value, key)


def _container(template: Mapping[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = template["spec"]["containers"][0]
    return container


def _described_fields(template: Mapping[str, Any], call: TrainerCall) -> dict[str, object]:
    """Returns the fields of a pod template, and the flags and environment of its command, by names for the notes."""
    pod = {key: value for key, value in template["spec"].items() if key != "containers"}
    container = {key: value for key, value in _container(template).items() if key != "name"}
    more = {"metadata": template.get("metadata"), "further containers": template["spec"]["containers"][1:]}
    line = {"cd": call.folder, "environment": call.environment, "other commands": "; ".join(call.others)}
    flags = {f"--{name}": value for name, value in call.flags.items()}
    return {**{f"template.{key}": value for key, value in {**pod, **container, **more}.items()}, **line, **flags}


def _without_empty(template: dict[str, object]) -> dict[str, object]:
    container = _container(template)
    if not container.get("env"):
        container.pop("env", None)
    return template

"""`generic-trainer submit`: manifests made from command lines, and errors before anything is written."""

from __future__ import annotations

import json
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import click
import pytest
import yaml

from generic_trainer import InputError, TrainerError
from generic_trainer.cli.main import cli

DATA = ("--train-files", "gs://b/train*", "--output", "gs://b/out")
TRAIN = ("train", "project.taxi", *DATA)
ON_RAY = (*TRAIN, "--engine", "ray")
KUBERAY = ("--to", "kuberay", "--image", "registry/trainer:1")
TRAINER = ("--to", "kubeflow-trainer", "--image", "registry/trainer:1")
ELASTICDL = ("elasticdl", "train", "--model_def=iris.model.custom_model", "--training_data=gs://b/iris.csv")


@pytest.fixture
def submit(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs the command in this process; returns the last manifest, with the lines of standard error as `notes`."""

    def run(*arguments: object) -> Any:
        cli.main(["submit", *map(str, arguments)], standalone_mode=False)
        out, err = capsys.readouterr()
        manifests = list(yaml.safe_load_all(out)) or [{}]
        return {**manifests[-1], "notes": err}

    return run


def words_of(manifest: dict[str, Any]) -> list[str]:
    """Returns the command line that a job runs, without the program's name."""
    if manifest["kind"] == "TrainJob":
        return list(manifest["spec"]["trainer"]["args"])
    return shlex.split(manifest["spec"]["entrypoint"])[1:]


def tasks_of(train_job: dict[str, Any]) -> dict[str, int]:
    """Returns the number of pods by role."""
    tasks: dict[str, int] = json.loads(train_job["spec"]["trainer"]["env"][0]["value"])
    return tasks


def test_the_same_command_line_runs_there(submit: Callable[..., Any]) -> None:
    given = (
        *ON_RAY, "--workers=1:4", "--train-files", "gs://b/more*", "--no-profile", "--seed", "1", "--seed=2",
        "--custom-config", '{"why": "it\'s"}', "--required-signature", "a", "--required-signature", "b",
    )  # fmt: skip
    manifest = submit(*KUBERAY, "--", *given)
    assert words_of(manifest) == [
        "train",
        "project.taxi",
        "--train-files=gs://b/train*",
        "--output=gs://b/out",
        "--engine=ray",
        "--workers=1:4",
        "--train-files=gs://b/more*",
        "--no-profile",
        "--seed=2",
        '--custom-config={"why": "it\'s"}',
        "--required-signature=a",
        "--required-signature=b",
    ]
    assert manifest["metadata"]["name"] == "project-taxi"
    group = manifest["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
    assert (group["minReplicas"], group["maxReplicas"]) == (1, 4)
    assert submit(*KUBERAY, *given) == manifest  # without the "--", too


def test_a_script_gets_its_arguments_there(submit: Callable[..., Any]) -> None:
    given = ("script", "-m", "trainer.task", "--output", "gs://b/out", "--engine", "ray", "--", "--steps", "3")
    words = ["script", "trainer.task", "-m", "--output=gs://b/out", "--engine=ray", "--", "--steps", "3"]
    assert words_of(submit(*KUBERAY, "--", *given)) == words


def test_kubeflow_trainer_gets_replicas_instead_of_ray(submit: Callable[..., Any]) -> None:
    ray = ("--engine", "ray", "--workers", "2:3", "--ps", "1", "--cpus-per-worker", "8", "--max-failures", "0")
    manifest = submit(*TRAINER, *TRAIN, *ray, "--timeout", "60")
    assert words_of(manifest) == [
        "train",
        "project.taxi",
        *(f"{a}={b}" for a, b in zip(*[iter(DATA)] * 2, strict=True)),
        "--timeout=60",
    ]
    assert tasks_of(manifest) == {"chief": 1, "worker": 2, "ps": 1}
    assert "the job has 3" in manifest["notes"]


def test_a_local_cluster_becomes_pods(submit: Callable[..., Any]) -> None:
    manifest = submit(*TRAINER, *TRAIN, "--cluster", "chief=1,worker=2,ps=1,evaluator=1")
    assert tasks_of(manifest) == {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}
    assert not [word for word in words_of(manifest) if "cluster" in word]


def test_local_code_is_packed_into_an_archive(
    submit: Callable[..., Any], module: Callable[..., str], tmp_path: Any
) -> None:
    path = module("import helpers\n", "taxi.py", helpers="")
    store = ("--volume", f"store:{tmp_path}/store", "--code-root", tmp_path / "store" / "code")
    manifest = submit(*KUBERAY, *store, "train", path, *DATA, "--engine=ray")
    name, _, archive = words_of(manifest)[1].partition("@")
    assert name == "taxi"
    assert pathlib.Path(archive).parent == tmp_path / "store" / "code"
    assert pathlib.Path(archive).is_file()
    assert manifest["metadata"]["name"] == "taxi"
    again = submit(*KUBERAY, *store, "train", words_of(manifest)[1], *DATA, "--engine=ray")
    assert words_of(again) == words_of(manifest)


def test_a_model_zoo_is_packed(submit: Callable[..., Any], module: Callable[..., str], tmp_path: Any) -> None:
    zoo = pathlib.Path(module("import common.names\n", "iris/model.py", **{"common/names": ""})).parent.parent
    store = ("--volume", f"store:{tmp_path}/store", "--code-root", tmp_path / "store")
    given = (*ELASTICDL, "--output=gs://b/model", "--engine=ray")
    manifest = submit(*KUBERAY, *store, *given, f"--model_zoo={zoo}")
    [archive] = [word for word in words_of(manifest) if word.startswith("--model_zoo=")]
    # The job loads it like this:
    from generic_trainer.executors.dialects.elasticdl.command.flags import model_file
    from generic_trainer.executors.modules.source import find_source

    reference, name = model_file(archive.partition("=")[2], "iris.model.custom_model")
    source = find_source(reference, str(tmp_path / "scratch"))
    assert name == "custom_model"
    assert [pathlib.Path(file).name for file in source.files] == ["names.py", "model.py"]
    assert source.path.startswith(str(tmp_path / "scratch"))


def test_confs_pipelines_and_files_of_the_image(submit: Callable[..., Any]) -> None:
    conf = submit(*KUBERAY, "dlrover", "--conf=train_conf.TrainConf", "--output=gs://b/out", "--engine=ray")
    assert words_of(conf)[:2] == ["dlrover", "--conf=train_conf.TrainConf"]
    assert "model_dir" in conf["notes"]
    pipeline = submit(
        *KUBERAY, "--volume", "nas:/nas", "run", "--data=/nas/taxi", "--module-file=project.taxi",
        "--pipeline-root=/nas/root/../taxi", "--engine=ray",
    )  # fmt: skip
    assert words_of(pipeline)[0] == "run"
    zoo = submit(
        *KUBERAY, "--in-image", "/zoo", *ELASTICDL, "--model_zoo=/zoo/mine", "--output=gs://b/o", "--engine=ray"
    )
    assert "--model_zoo=/zoo/mine" in words_of(zoo)


def test_elasticdls_own_number_of_workers_counts(submit: Callable[..., Any]) -> None:
    more = ("--output=gs://b/o", "--model_zoo=/zoo", "--num_workers=3", "--distribution_strategy=AllreduceStrategy")
    there = submit(*KUBERAY, "--in-image=/zoo", *ELASTICDL, *more, "--engine=ray")
    assert there["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"] == 3
    assert "--num_workers=3" in words_of(there)
    there = submit(*TRAINER, "--in-image=/zoo", *ELASTICDL, *more, "--engine=ray")
    assert tasks_of(there) == {"worker": 3}
    assert not [word for word in words_of(there) if "workers" in word or "strategy" in word]


def test_dlrovers_own_numbers_count_and_its_workers_have_a_parameter_server(submit: Callable[..., Any]) -> None:
    line = ("dlrover", "--conf=train_conf.TrainConf", "--output=gs://b/out", "--engine=ray", "--worker_num=3")
    tasks = [
        submit(*KUBERAY, *line, *more)["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"]
        for more in ([], ["--ps_num=2"], ["--ps=2", "--workers=4"])
    ]
    assert tasks == [4, 5, 6]
    there = submit(*TRAINER, *line)
    assert tasks_of(there) == {"chief": 1, "worker": 2, "ps": 1}
    assert not [word for word in words_of(there) if "_num" in word]


def test_a_config_file_goes_into_the_manifest(submit: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.json").write_text('{"epochs": 3}')
    manifest = submit(*KUBERAY, *ON_RAY, "--custom-config", f"@{tmp_path}/config.json")
    assert '--custom-config={"epochs": 3}' in words_of(manifest)


def test_paths_are_those_of_the_job(submit: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    """This machine may have no file system for them, or a file where the job has a folder."""
    (tmp_path / "out").touch()
    files = ("--train-files", "hdfs://host/train*", "--output", f"{tmp_path}/out")
    words = words_of(submit(*KUBERAY, "--volume", f"data:{tmp_path}", "--", "train", "p.taxi", *files, "--engine=ray"))
    assert "--train-files=hdfs://host/train*" in words
    assert f"--output={tmp_path}/out" in words


@pytest.mark.parametrize("platform", [KUBERAY, TRAINER])
def test_printed_options_can_be_read_again(
    platform: tuple[str, ...],
    submit: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
    tmp_path: pathlib.Path,
) -> None:
    cli.main(["submit", *platform, "--print-config"], standalone_mode=False)
    (tmp_path / "submit.yaml").write_text(capsys.readouterr().out)
    command = ON_RAY if platform == KUBERAY else TRAIN
    assert submit("--config", tmp_path / "submit.yaml", "--", *command)["kind"] in ("RayJob", "TrainJob")


def test_an_elastic_job_is_converted(submit: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    trainer = "cd /work && python -m dlrover.trainer.entry.local_entry --platform=Kubernetes --conf=c.TrainConf"
    container = {"name": "main", "image": "own:1", "command": ["bash", "-c", trainer]}
    container["volumeMounts"] = [{"name": "nas", "mountPath": "/nas"}]
    worker = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    job = {"apiVersion": "elastic.iml.github.io/v1alpha1", "kind": "ElasticJob", "metadata": {"name": "ctr"}}
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump({**job, "spec": {"replicaSpecs": {"worker": worker}, "optimizeMode": "cluster"}}))
    source = ("--to", "kuberay", "--from", path)
    output = tmp_path / "rayjob.yaml"
    notes = submit(*source, "--output", output)["notes"]
    assert "The output directory is /nas/ctr. To change it, add -- --output=DIR." in notes
    assert "--output=/nas/ctr" in yaml.safe_load(output.read_text())["spec"]["entrypoint"]
    del container["volumeMounts"]
    (tmp_path / "plain.yaml").write_text(yaml.safe_dump({**job, "spec": {"replicaSpecs": {"worker": worker}}}))
    with pytest.raises(InputError, match=r"no volume for its outputs\. Run: .*plain\.yaml -- --output=gs://BUCKET/ctr"):
        submit("--to", "kuberay", "--from", tmp_path / "plain.yaml")
    notes = submit(*source, "--output", output, "--", "--output", "/nas/out", "--workers", "1:4")["notes"]
    text = output.read_text()
    manifest = yaml.safe_load(text)
    assert manifest["spec"]["entrypoint"].startswith(
        "cd /work && generic-trainer dlrover --conf=c.TrainConf --engine=ray"
    )
    assert manifest["spec"]["entrypoint"].endswith("--workers=1:4")
    left_out = "spec.optimizeMode: cluster was left out"
    assert left_out in notes
    assert f"# {left_out}" in text
    assert manifest["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] == "own:1"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((*KUBERAY, *TRAIN), "Add --engine ray, and --workers N"),
        (("--to", "kuberay", *ON_RAY), "submit needs --image"),
        (KUBERAY, "submit needs a command to submit: train, script, run, dlrover, elasticdl train"),
        ((*KUBERAY, "predict", "--model", "m"), "submit predict: the commands that can be submitted are"),
        ((*KUBERAY, "elasticdl", "evaluate"), "submit elasticdl: .*Did you mean 'elasticdl train'"),
        ((*KUBERAY, *ON_RAY, "--image", "other"), "--image is an option of submit: put it before 'train'"),
        ((*KUBERAY, *ON_RAY, "--workers", "4:1"), "workers='4:1': give an integer from 1"),
        ((*KUBERAY, *ON_RAY, "--cluster", "worker=2"), "--cluster starts a cluster on one machine"),
        ((*KUBERAY, *ON_RAY, "--schema", "schema.pbtxt"), "--schema schema.pbtxt: on this machine only"),
        ((*KUBERAY, *ON_RAY, "--eval-files", "file:///e*"), "--eval-files file:///e.*: on this machine only"),
        (
            (*KUBERAY, "train", "m", "--train-files=/a", "--output=o", "--engine=ray"),
            "--train-files /a, --output o: on",
        ),
        (
            (*KUBERAY, "--in-image=/i", "train", "m", "--train-files=/i/a", "--output=/i/o", "--engine=ray"),
            "--output /i/o",
        ),
        (
            (*KUBERAY, "--volume=v:/d", *ON_RAY[:-4], "--output=/data", "--engine=ray"),
            "--output /data: on this machine",
        ),
        ((*KUBERAY, "--volume=v:/d", *ON_RAY[:-4], "--output=/d/../e", "--engine=ray"), "--output /d/../e: on this"),
        (
            (*KUBERAY, "train", "taxi.py", *DATA, "--engine=ray"),
            "MODULE taxi.py is a file on this machine.*--code-root",
        ),
        ((*KUBERAY, "--code-root=/tmp", *ON_RAY), "--code-root /tmp: not readable from the job"),
        ((*KUBERAY, "--code-root=gs://b/c", *ON_RAY), "there is no 'project' in"),
        ((*KUBERAY, *ON_RAY, "--custom-config", '{"api_key": "abc"}'), "contains 'api_key', which looks like a secret"),
        ((*KUBERAY, "--name=Taxi", *ON_RAY), "--name 'Taxi': Kubernetes allows lower-case"),
        ((*KUBERAY, "--namespace=a.b", *ON_RAY), "--namespace 'a.b': Kubernetes allows"),
        ((*KUBERAY, "--runtime=r", *ON_RAY), "--runtime requires --to kubeflow-trainer"),
        (
            (*KUBERAY, "run", "--data=gs://b", "--module-file=m", "--engine=ray"),
            "--pipeline-root pipeline .its default",
        ),
        (
            (*KUBERAY, "run", "--data=gs://b", "--module-file=m", "--pipeline-root=gs://b/r", "--engine=ray"),
            "--pipeline-root gs://b/r: a pipeline needs a folder here",
        ),
        ((*KUBERAY, *ELASTICDL, "--model_zoo=z", "--engine=ray"), "--output elasticdl_output .its default"),
        ((*TRAINER, *ON_RAY, "--workers=2", "--cluster=worker=2"), "Give one of them"),
        ((*TRAINER, *ON_RAY, "--cluster-address=a:1"), "the job does not use a Ray cluster"),
    ],
)
def test_commands_that_would_fail_in_the_job_are_rejected(
    submit: Callable[..., Any], arguments: tuple[str, ...], text: str
) -> None:
    with pytest.raises(TrainerError, match=text):
        submit(*arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--to", "kubernetes", *TRAIN), "'kubernetes' is not one of 'kuberay', 'kubeflow-trainer'"),
        ((*KUBERAY, *ON_RAY, "--wokers", "2"), "No such option: --wokers|No such option '--wokers'"),
        ((*KUBERAY, "train", "m", "--engine", "ray"), "Missing option '--output'"),
        ((*KUBERAY, *ON_RAY, "--max-failures", "many"), "'many': give an integer"),
    ],
)
def test_errors_of_the_commands_own_parser_are_shown(
    submit: Callable[..., Any], arguments: tuple[str, ...], text: str
) -> None:
    with pytest.raises(click.UsageError) as raised:
        submit(*arguments)
    assert any(part in raised.value.format_message() for part in text.split("|"))


def test_nothing_is_written_before_all_checks_pass(
    submit: Callable[..., Any], module: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    store = ("--volume", f"store:{tmp_path}/store", "--code-root", tmp_path / "store")
    output = tmp_path / "job.yaml"
    with pytest.raises(InputError, match="pods take whole GPUs"):
        submit(
            *KUBERAY, *store, "--output", output, "train", module(""), *DATA, "--engine=ray", "--gpus-per-worker=0.5"
        )
    assert not output.exists()
    assert not (tmp_path / "store").exists()


def test_it_does_not_import_tensorflow(tmp_path: pathlib.Path) -> None:
    program = f"""
import sys
from generic_trainer.cli.main import cli
cli.main({["submit", *KUBERAY, "--output", f"{tmp_path}/job.json", *ON_RAY]!r}, standalone_mode=False)
print(sorted({{"tensorflow", "tfx.types", "apache_beam", "ray", "kubernetes"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert json.loads((tmp_path / "job.json").read_text())["kind"] == "RayJob"

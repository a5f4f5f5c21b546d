"""The CustomJob is valid by Google's own definition, has a pool for each role, and is submitted."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.auth.credentials import AnonymousCredentials
from google.cloud import aiplatform_v1
from google.cloud.aiplatform_v1.services.job_service.transports import JobServiceRestTransport

from generic_trainer import InputError, TrainingOptions
from generic_trainer.pipelines.submit import vertex
from generic_trainer.pipelines.submit.submission import SubmittedJob
from generic_trainer.pipelines.submit.vertex import ACCELERATORS, Vertex, custom_job

COMMAND = ("train", "taxi", "--train-files=gs://b/train*", "--output=gs://b/out")


def job(evaluators: int = 0, accelerator: str = "", service_account: str = "", **options: Any) -> SubmittedJob:
    return SubmittedJob(
        "taxi",
        "registry/trainer:1",
        COMMAND,
        TrainingOptions(**{"engine": "ray", **options}),
        evaluators=evaluators,
        accelerator=accelerator,
        service_account=service_account,
    )


def pools_of(manifest: dict[str, Any]) -> list[tuple[int, str]]:
    """Returns replicas and machine type of each pool, by Google's definition, which rejects unknown fields."""
    parsed = aiplatform_v1.CustomJob.from_json(json.dumps(manifest), ignore_unknown_fields=False)
    return [(pool.replica_count, pool.machine_spec.machine_type) for pool in parsed.job_spec.worker_pool_specs]


def test_one_replica() -> None:
    manifest = custom_job(job(), Vertex("n1-standard-8"))
    assert pools_of(manifest) == [(1, "n1-standard-8")]
    [pool] = manifest["jobSpec"]["workerPoolSpecs"]
    assert pool["containerSpec"] == {
        "imageUri": "registry/trainer:1",
        "command": ["generic-trainer"],
        "args": list(COMMAND),
    }
    assert manifest["jobSpec"]["scheduling"] == {"restartJobOnWorkerRestart": False}


def test_a_pool_for_each_role() -> None:
    asked = job(workers="2:4", ps=2, evaluators=1, memory_gb_per_worker=30, timeout=60, service_account="me@p.iam")
    manifest = custom_job(asked, Vertex("n2-standard-16", "e2-standard-8", output="gs://b/out"))
    # The chief is one of the four that train; parameter servers have another machine type.
    assert pools_of(manifest) == [
        (1, "n2-standard-16"),
        (3, "n2-standard-16"),
        (2, "e2-standard-8"),
        (1, "n2-standard-16"),
    ]
    spec = manifest["jobSpec"]
    assert spec["scheduling"] == {"restartJobOnWorkerRestart": True, "timeout": "960s"}
    assert (spec["serviceAccount"], spec["baseOutputDirectory"]) == ("me@p.iam", {"outputUriPrefix": "gs://b/out"})
    assert vertex.remarks(asked) == ["--workers 2:4: the number of replicas on Vertex AI is fixed; the job has 4."]


def test_unused_pools_are_empty_to_keep_the_pool_indexes() -> None:
    assert pools_of(custom_job(job(evaluators=1), Vertex("n1-standard-8"))) == [
        (1, "n1-standard-8"),
        (0, ""),
        (0, ""),
        (1, "n1-standard-8"),
    ]


def test_failures() -> None:
    scheduling = custom_job(job(workers="2", max_failures=0), Vertex("n1-standard-8"))["jobSpec"]["scheduling"]
    assert scheduling == {"restartJobOnWorkerRestart": False, "disableRetries": True}
    assert vertex.remarks(job(max_failures=7)) == [
        "--max-failures 7: Vertex AI sets the number of restarts; 0 disables them."
    ]


@pytest.mark.parametrize("kind", ACCELERATORS)
def test_every_accelerator_is_defined_by_google(kind: str) -> None:
    asked = job(gpus_per_worker=8, accelerator=kind.lower().replace("_", "-"), ps=1, workers="2")
    manifest = custom_job(asked, Vertex("a2-highgpu-8g", "e2-standard-4"))
    pools = manifest["jobSpec"]["workerPoolSpecs"]
    assert pools_of(manifest)[2] == (1, "e2-standard-4")
    assert "acceleratorType" not in pools[2]["machineSpec"]  # a parameter server needs none
    for pool in pools[:2]:
        assert (pool["machineSpec"]["acceleratorType"], pool["machineSpec"]["acceleratorCount"]) == (kind, 8)


def test_a_machine_type_is_required() -> None:
    with pytest.raises(InputError, match="set the machine type of the replicas with --machine-type"):
        custom_job(job(), Vertex(""))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"gpus_per_worker": 1}, "1 GPUs: set the type with --accelerator"),
        (
            {"gpus_per_worker": 1, "accelerator": "NVIDIA_L4", "ps": 1, "workers": "2"},
            "set a machine type without GPUs",
        ),
        ({"accelerator": "NVIDIA_TESLA_T5"}, "Did you mean 'NVIDIA_TESLA_T4'"),
        ({"gpus_per_worker": 0.5}, "machines have whole GPUs only"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        custom_job(job(**options), Vertex("n1-standard-8"))


def test_it_is_submitted(api: Any) -> None:
    def answer(body: Any) -> tuple[int, Any]:
        if body["displayName"] == "taxi":
            return 200, {**body, "name": "projects/p/locations/r/customJobs/1"}
        return 400, {"error": {"code": 400, "message": "no such image", "status": "INVALID_ARGUMENT"}}

    api.answer = answer
    host = api.url.removeprefix("http://")
    transport = JobServiceRestTransport(host=host, url_scheme="http", credentials=AnonymousCredentials())
    client = aiplatform_v1.JobServiceClient(transport=transport)
    manifest = custom_job(job(workers="3"), Vertex("n1-standard-8"))
    assert vertex.send(manifest, "p", "r", client) == "projects/p/locations/r/customJobs/1"
    [(method, path, body)] = api.requests
    assert (method, path.partition("?")[0]) == ("POST", "/v1/projects/p/locations/r/customJobs")
    assert pools_of(body) == [(1, "n1-standard-8"), (2, "n1-standard-8")]
    with pytest.raises(InputError, match=r"Vertex AI rejected the job: .*no such image") as raised:
        vertex.send({**manifest, "displayName": "other"}, "p", "r", client)
    assert isinstance(raised.value.__cause__, GoogleAPICallError)


def test_without_the_client_the_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import google.cloud

    monkeypatch.delattr(google.cloud, "aiplatform_v1")
    monkeypatch.setitem(sys.modules, "google.cloud.aiplatform_v1", None)
    with pytest.raises(InputError, match="pip install google-cloud-aiplatform"):
        vertex.send(custom_job(job(), Vertex("n1-standard-8")), "p", "r")


def test_without_credentials_the_error_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))
    with pytest.raises(
        InputError, match=r"--send: no credentials were found: .* Try gcloud auth application-default login"
    ):
        vertex.send(custom_job(job(), Vertex("n1-standard-8")), "p", "r")

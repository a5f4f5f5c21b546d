"""DLRover's ElasticJob: any file gives a job, or an error that names the file."""

from __future__ import annotations

from generic_trainer.pipelines.submit.job_file import read_job_file

from .target import answer, file_of

_JOB = b"""apiVersion: elastic.iml.github.io/v1alpha1
kind: ElasticJob
metadata: {name: deepctr, namespace: ads}
spec:
  distributionStrategy: ParameterServerStrategy
  replicaSpecs:
    ps:
      replicas: 1
      template:
        spec:
          containers:
            - image: image
              command: [python, -m, dlrover.trainer.entry.local_entry, --conf=conf.TrainConf]
              resources: {requests: {cpu: 500m, memory: 1Gi}}
    worker:
      replicas: 2
      restartCount: 3
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: main
              image: registry/image:1
              command: [/bin/bash, -c, "cd /app && python -m dlrover.trainer.entry.local_entry --conf=conf.TrainConf"]
              resources: {limits: {cpu: 1, memory: 2048Mi, nvidia.com/gpu: 1}}
              volumeMounts: [{name: data, mountPath: /data}]
"""
SEEDS = [
    _JOB,
    b"kind: ElasticJob\napiVersion: elastic.iml.github.io/v1alpha1\nspec: {}\n",
    b"- &a [*a]\n",
    b"---\n---\n",
]


def check(data: bytes) -> None:
    """Reads the data as a manifest, and checks the command and the types."""
    path = file_of(data, "elasticjob.yaml")
    job = answer(lambda: read_job_file(path), path)
    if job is not None:
        assert job.command[0] == "dlrover"
        assert all(isinstance(word, str) for word in (*job.command, *job.notes, *job.folders))

"""The entry points of a Kubeflow Pipelines step."""

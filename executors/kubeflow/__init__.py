"""Entry points of Kubeflow Pipelines steps."""

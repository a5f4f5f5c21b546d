"""Job manifests for KubeRay and Kubeflow Trainer, and their submission."""

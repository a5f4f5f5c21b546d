"""Job manifests for KubeRay and Vertex AI, and their submission."""

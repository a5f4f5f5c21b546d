"""Job manifests for other platforms: KubeRay and Vertex AI."""

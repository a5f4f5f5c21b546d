"""The names of GPUs on each platform."""

from __future__ import annotations

from ...executors.errors import InputError, did_you_mean
from .names import LABEL_KEY, LABEL_VALUE

GPU = "nvidia.com/gpu"  # Kubernetes' resource, and the key of the taint of nodes that have it
_GKE_LABEL = "cloud.google.com/gke-accelerator"
# https://cloud.google.com/vertex-ai/docs/training/configure-compute
_VERTEX = (
    "NVIDIA_TESLA_T4",
    "NVIDIA_TESLA_P4",
    "NVIDIA_TESLA_P100",
    "NVIDIA_TESLA_V100",
    "NVIDIA_L4",
    "NVIDIA_TESLA_A100",
    "NVIDIA_A100_80GB",
    "NVIDIA_H100_80GB",
    "NVIDIA_H100_MEGA_80GB",
    "NVIDIA_H200_141GB",
)


def node_label(accelerator: str, flag: str) -> dict[str, str]:
    """Returns the label of nodes with a type of GPU: LABEL=VALUE, or a value of GKE's label.

    Raises:
      InputError: When Kubernetes does not allow it.
    """
    label, _, value = accelerator.rpartition("=")
    return {LABEL_KEY.require(label, flag) or _GKE_LABEL: LABEL_VALUE.require(value, flag)}


def vertex_type(accelerator: str, flag: str) -> str:
    """Returns Vertex AI's name of a type of GPU, such as NVIDIA_TESLA_T4 for nvidia-tesla-t4.

    Raises:
      InputError: When Vertex AI does not offer it.
    """
    name = accelerator.upper().replace("-", "_")
    if name not in _VERTEX:
        raise InputError(f"{flag}={accelerator}: Vertex AI offers {', '.join(_VERTEX)}.{did_you_mean(name, _VERTEX)}")
    return name

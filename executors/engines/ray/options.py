"""The option of Ray."""

from __future__ import annotations

from ...option import CLUSTER, option


class RayOptions:
    """The cluster to use."""

    cluster_address: str | None = option(
        None,
        "Address of the Ray cluster (default: RAY_ADDRESS, else a local cluster started for the run).",
        group=CLUSTER,
        order=21,
        needs_cluster=True,
    )

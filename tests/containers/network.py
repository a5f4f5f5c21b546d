"""A virtual network of pods: network namespaces with an address each, connected by a bridge.

    with Network() as network:
        pod = network.pod("taxi-worker-0-0.taxi")
        podman("run", *network.flags(pod), …)
        network.disconnect(pod)        # the node is lost

Host names are resolved by a hosts file, as in all pods of a headless service.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import subprocess
import uuid
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Pod:
    """A pod's network namespace.

    Attributes:
      host: Its host name.
      address: Its IP address.
      namespace: Name of its network namespace.
      link: Name of its end of the cable in the switch's namespace.
    """

    host: str
    address: str
    namespace: str
    link: str


class Network:
    """The network; its namespaces are removed at the end of the `with` block."""

    def __init__(self) -> None:
        self._name = f"gt{uuid.uuid4().hex[:6]}"
        self._numbers = itertools.count(1)
        self._pods: list[Pod] = []
        self._cleanup = contextlib.ExitStack()

    def __enter__(self) -> Network:
        self._add(self._name)
        _ip("-n", self._name, "link", "add", "br0", "type", "bridge")
        _ip("-n", self._name, "link", "set", "br0", "up")
        return self

    def __exit__(self, *error: object) -> None:
        self._cleanup.close()

    def pod(self, host: str) -> Pod:
        """Adds a pod; its host name is known to the containers that are started later."""
        number = next(self._numbers)
        pod = Pod(host, f"10.77.0.{number}", f"{self._name}-{number}", f"veth{number}")
        self._add(pod.namespace)
        _ip("-n", self._name, "link", "add", pod.link, "type", "veth", "peer", "name", "eth0", "netns", pod.namespace)
        _ip("-n", self._name, "link", "set", pod.link, "master", "br0", "up")
        _ip("-n", pod.namespace, "address", "add", f"{pod.address}/16", "dev", "eth0")
        for device in ("eth0", "lo"):
            _ip("-n", pod.namespace, "link", "set", device, "up")
        self._pods.append(pod)
        return pod

    def disconnect(self, pod: Pod) -> None:
        """Unplugs a pod's cable: its packets and those to it get lost."""
        _ip("-n", self._name, "link", "set", pod.link, "down")

    def flags(self, pod: Pod) -> Iterator[str]:
        """Yields podman's flags for a container in a pod."""
        yield from (
            "--network",
            f"ns:/run/netns/{pod.namespace}",
            "--uts",
            "private",
            "--hostname",
            pod.host.partition(".")[0],
        )
        for other in self._pods:
            yield from ("--add-host", f"{other.host}:{other.address}")

    def _add(self, namespace: str) -> None:
        _ip("netns", "add", namespace)
        self._cleanup.callback(_ip, "netns", "delete", namespace)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)

"""Addresses of tasks, as TensorFlow's servers read them: "host:port", with IPv6 addresses in brackets.

address = Address.parse("[::1]:2222")      # Address("::1", 2222); None for other texts
address.accepts_connections(timeout=1.0)   # whether a process listens there
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import socket

from ..number_range import PORTS

_NAME = re.compile(r"\w[\w.-]*", re.ASCII)  # names of containers may contain underscores, or be a number
_DOTTED_NUMBERS = re.compile(r"[0-9]+(\.[0-9]+)+")


@dataclasses.dataclass(frozen=True)
class Address:
    """The address of a task; equal for texts of the same host and port.

    Attributes:
      host: Host name in lower case, or IP address.
      port: TCP port.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address | None:
        """Parses "host:port"; returns None for other texts.

        An IPv6 address needs brackets: gRPC cannot connect to "::1:2222", because the port may be part of the address.
        """
        host, _, port_text = text.rpartition(":")
        port = PORTS.parse(port_text)
        if port is None or not _is_host(host):
            return None
        return cls(host.lower().strip("[]"), int(port))

    def accepts_connections(self, timeout: float) -> bool:
        """Whether a process accepts connections at this address within `timeout` seconds."""
        try:
            socket.create_connection((self.host, self.port), timeout).close()
        except (OSError, UnicodeError):  # UnicodeError: a part of the name is too long for a host
            return False
        return True


def _is_host(text: str) -> bool:
    try:
        if text.startswith("[") and text.endswith("]"):
            ipaddress.IPv6Address(text[1:-1])
        elif _DOTTED_NUMBERS.fullmatch(text):
            ipaddress.IPv4Address(text)
        else:
            return _NAME.fullmatch(text) is not None
    except ValueError:
        return False
    return True

"""Escapes values for the fields of a container in which Kubernetes replaces `$(NAME)` by a variable, and `$$` by `$`.

These are `command`, `args` and the values of `env`, in manifests of Kubernetes and in Kubeflow's
PipelineContainerSpec. Values in all other fields are taken as they are.

    literal("$(HOME)/$USER")    # "$$(HOME)/$USER"
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Every `$` that the replacement reads as the begin of a reference or of an escape: k8s.io/kubernetes,
# third_party/forked/golang/expansion. A single `$` before another character stays as it is.
_READ = re.compile(r"\$(?=\()|\${2,}")


def literal(text: str) -> str:
    """Returns the text that Kubernetes replaces by the given one."""
    return _READ.sub(lambda match: 2 * match[0], text)


def environment(variables: Mapping[str, str]) -> list[dict[str, str]]:
    """Returns the `env` of a container with exactly these values."""
    return [{"name": name, "value": literal(value)} for name, value in variables.items()]

"""The rules of Kubernetes and container registries for names in manifests.

SUBDOMAIN.require("ml-team", "--queue")         # "ml-team"
JOB.derived("taxi_keras.v2")                    # "taxi-keras-v2"
IMAGE.require("a; b", "--image")                # InputError: --image 'a; b': …
require_unique(["A", "A"], "--env")             # InputError: --env: A occurs twice. …
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Iterable

from ...executors.errors import InputError

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_NAME = r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"


@dataclasses.dataclass(frozen=True)
class NameRule:
    """A rule for names.

    Attributes:
      pattern: Regular expression of the whole name.
      text: The rule in words, a sentence for messages.
      longest: The maximum number of characters.
      has_example: Whether messages propose a derived name.
    """

    pattern: str
    text: str
    longest: int = 253
    has_example: bool = False

    def allows(self, name: str) -> bool:
        """Whether a name follows the rule."""
        return len(name) <= self.longest and re.fullmatch(self.pattern, name, re.ASCII) is not None

    def require(self, name: str, flag: str) -> str:
        """Returns the name; "" is allowed, and means that the flag is not given.

        Raises:
          InputError: When the name does not follow the rule.
        """
        if name and not self.allows(name):
            example = f" For example {self.derived(name)!r}." if self.has_example else ""
            raise InputError(f"{flag} {name!r}: {self.text}, at most {self.longest} characters.{example}")
        return name

    def derived(self, text: str) -> str:
        """Returns a name derived from a text: lower case, digits and "-", starting with a letter."""
        name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
        name = name if name[:1].isalpha() else f"job-{name}"
        return name[: self.longest].rstrip("-")


# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
_LOWER = "Kubernetes allows lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part"
SUBDOMAIN = NameRule(_SUBDOMAIN, _LOWER)
QUEUE = NameRule(_SUBDOMAIN, _LOWER, 63)  # also the value of a label
_LABEL = (
    r"[a-z]([-a-z0-9]*[a-z0-9])?",
    "Kubernetes allows lower-case letters, digits and '-', starting with a letter and ending with a letter or digit",
)
# KubeRay's MaxRayJobNameLength. Host names of a JobSet, NAME-evaluator-0-INDEX, have at most 63 characters.
JOB = NameRule(*_LABEL, 47, has_example=True)
NAMESPACE = RUNTIME = NameRule(*_LABEL, 63, has_example=True)
# The pattern in tfx.orchestration.kubeflow.v2.pipeline_builder
PIPELINE = NameRule(r"[a-z0-9][a-z0-9-]*", "Kubeflow allows lower-case letters, digits and '-'", 128, has_example=True)
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
LABEL_KEY = NameRule(
    rf"((?=[^/]{{1,253}}/){_SUBDOMAIN}/)?{_LABEL_NAME}", "expected a key such as team or example.com/team", 317
)
LABEL_VALUE = NameRule(
    rf"({_LABEL_NAME})?",
    "Kubernetes allows letters, digits, '-', '_' and '.' in values of labels, with a letter or digit at both ends",
    63,
)
VARIABLE = NameRule(r"[A-Za-z_][A-Za-z0-9_]*", "expected letters, digits and '_', with no digit at the beginning")
SECRET_KEY = NameRule(r"[-._A-Za-z0-9]+", "Kubernetes allows letters, digits, '-', '_' and '.' in keys of Secrets")
# The grammar of https://pkg.go.dev/github.com/distribution/reference
IMAGE = NameRule(
    r"((?!-)[-A-Za-z0-9]+(\.[-A-Za-z0-9]+)*(:[0-9]{1,5})?/|\[[0-9a-fA-F:]+\](:[0-9]{1,5})?/)?"
    r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][-.\w]{0,127})?(@[a-z0-9]+([+._-][a-z0-9]+)*:[0-9a-f]{32,128})?",
    "an image is [REGISTRY/]REPOSITORY[:TAG][@DIGEST], such as registry.example.com/team/trainer:1, with a repository "
    "in lower case",
    512,
)
RAY_VERSION = NameRule(r"\d+(\.\d+)+((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?", "expected a version such as 2.60.0", 40)


def require_unique(names: Iterable[str], flag: str) -> None:
    """Raises InputError if a name occurs twice."""
    for name, count in collections.Counter(names).items():
        if count > 1:
            raise InputError(f"{flag}: {name} occurs twice. Keep one of them.")

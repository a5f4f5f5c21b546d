"""Writes manifests to a file, as YAML or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import yaml

from ...executors.errors import InputError
from ...executors.runtime.files.output_file import write_output


def write_manifests(
    path: str, manifests: Sequence[Mapping[str, object]], comment: str = "", *, sort_keys: bool = False
) -> None:
    """Writes YAML with a comment above, or JSON if the path ends in `.json`: several manifests as a Kubernetes List.

    Raises:
      InputError: When the file cannot be written.
    """
    # Parsing the JSON text removes shared objects, which YAML would write as anchors and aliases.
    plain = json.loads(json.dumps(manifests, default=str))
    if path.endswith(".json"):
        whole = plain[0] if len(plain) == 1 else {"apiVersion": "v1", "kind": "List", "items": plain}
        text = json.dumps(whole, indent=2, ensure_ascii=False) + "\n"
    else:
        text = "".join(f"# {line}\n" for line in comment.splitlines())
        text += yaml.safe_dump_all(plain, sort_keys=sort_keys, allow_unicode=True, width=110)
    try:
        write_output(path, text)
    except OSError as error:
        raise InputError(f"--output {path}: cannot write there ({error.strerror or error}).") from error

"""Repairs of `kfp.local` (2.16 and 2.17), which cannot run components with optional inputs or TFX's artifact types.

Importing this module applies them, for this process only. Each one names what fails without it:

- `construct_executor_input` fails with KeyError for optional artifacts that are not given (until 2.16), and with
  `int(None)` for optional parameters; and it makes each input artifact a `system.Artifact`, so that TFX cannot import
  its type.
- `run_docker_container` starts containers with `auto_remove`, which on podman removes them before `wait` returns; kfp
  then reports failed steps as successful.
- `get_local_task_resource_name` removes five letters of names that do not begin with `comp-`.
"""

from __future__ import annotations

from typing import Any

from kfp.local import docker_task_handler, executor_input_utils

_construct = executor_input_utils.construct_executor_input


def _construct_executor_input(component_spec: Any, arguments: dict[str, Any], **more: Any) -> Any:
    spec = type(component_spec)()
    spec.CopyFrom(component_spec)
    inputs = spec.input_definitions
    for name in [name for name in inputs.artifacts if name not in arguments and inputs.artifacts[name].is_optional]:
        del inputs.artifacts[name]
    for name, one in list(inputs.parameters.items()):
        if name not in arguments and one.is_optional and one.default_value.WhichOneof("kind") is None:
            del inputs.parameters[name]
    result = _construct(spec, arguments, **more)
    for name, given in result.inputs.artifacts.items():
        for artifact in given.artifacts:
            artifact.type.CopyFrom(inputs.artifacts[name].artifact_type)
    return result


def _run_docker_container(client: Any, image: str, command: list[str], volumes: dict[str, Any], **more: Any) -> int:
    tagged = docker_task_handler.add_latest_tag_if_not_present(image)
    container = client.containers.run(image=tagged, command=command, detach=True, volumes=volumes, **more)
    try:
        for line in container.logs(stream=True, follow=True):
            print(line.decode(), end="")
        return int(container.wait()["StatusCode"])
    finally:
        container.remove(force=True)


executor_input_utils.construct_executor_input = _construct_executor_input
executor_input_utils.get_local_task_resource_name = lambda name: name.removeprefix("comp-")
docker_task_handler.run_docker_container = _run_docker_container

"""The interface of engines: where the worker of a run is executed, and what this process is in its cluster."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from .. import plugins
from ..monitoring.run_record import FILE_NAME
from ..options import ENGINES, LOCAL, TrainingOptions

if TYPE_CHECKING:
    from ..training.run_state import Run

# Entry points: functions that return the engine that environment variables choose, or None.
ENVIRONMENT = "generic_trainer.environment_engines"


@dataclasses.dataclass(frozen=True)
class Place:
    """What the calling process is in a run.

    Attributes:
      name: The task of a cluster, for messages: "worker 1"; "" on one machine.
      is_chief: Whether it checks, publishes and records the model.
      worker_index: Its index among the workers; `fn_args.worker_index`.
      num_workers: The number of workers of this process's `FnArgs`; `fn_args.num_workers`.
      fit_workers: The maximum number of workers that train one model.
      in_cluster: Whether it belongs to a cluster, of one worker or more.
      is_remote: Whether the worker runs in other processes of a cluster, whose engine logs the progress.
      shares_batches: Whether workers shard one global batch, and so need the same order of records.
      cluster_id: Id of a cluster whose tasks may share a staging directory; "" for none.
      record_name: File name of its record in the model run folder.
    """

    name: str = ""
    is_chief: bool = True
    worker_index: int = 0
    num_workers: int = 1
    fit_workers: int = 1
    in_cluster: bool = False
    is_remote: bool = False
    shares_batches: bool = False
    cluster_id: str = ""
    record_name: str = FILE_NAME


@dataclasses.dataclass(frozen=True)
class WorkerStart:
    """A start of a worker.

    Attributes:
      worker: Dotted name of a module with `execute(request) -> result`.
      request: Its argument; JSON values.
      variables: Environment variables to add to the worker's.
      on_start: Called with the id of the worker's process, if it is on this machine.
      what: Name of the process in messages; that of the engine's place by default.
      is_quiet: Whether the process's output is shown only if it ends without a result.
    """

    worker: str
    request: Mapping[str, object]
    variables: Mapping[str, str]
    on_start: Callable[[int], object] = lambda process: None
    what: str = ""
    is_quiet: bool = False


class Engine:
    """Runs the worker of one run.

    Attributes:
      place: What the calling process is in the run.
    """

    def __init__(self, options: TrainingOptions, place: Place | None = None) -> None:
        self.options = options
        self.place = place or Place()

    def prepare(self, variables: Mapping[str, str]) -> None:
        """Starts what takes time, with the worker's environment variables, before the inputs are read."""

    def require_ready(self) -> None:
        """Checks that the worker can be run; raises an InputError if not."""

    def serving(self, run: Run) -> contextlib.AbstractContextManager[object]:
        """Returns the context of the run, after its record was written for the first time."""
        del run
        return contextlib.nullcontext()

    def execute(self, start: WorkerStart) -> Mapping[str, Any]:
        """Runs a worker.

        Returns:
          The worker's result; {} if it was ended because the cluster needs it no more.
        """
        raise NotImplementedError

    def finish(self, run: Run, execute_again: Callable[[Engine], object]) -> None:
        """Completes a training in a cluster when the module has returned, before the check.

        Args:
          run: The run.
          execute_again: Runs the module again, with another engine.
        """


def engine_for(options: TrainingOptions) -> Engine:
    """Returns the engine that the environment or the option `engine` chooses.

    Raises:
      InputError: If it cannot run here.
    """
    for choose in cast("Mapping[str, Callable[[], type[Engine] | None]]", plugins.load(ENVIRONMENT)).values():
        if engine := choose():
            return engine(options)
    return cast("type[Engine]", plugins.load_one(ENGINES, options.engine))(options)


def fresh_process(timeout: float | None) -> Engine:
    """Returns the engine that runs a worker in a new process of this machine, such as the check of a model.

    Args:
      timeout: Seconds until the process is ended; None for no limit.
    """
    return cast("type[Engine]", plugins.load_one(ENGINES, LOCAL))(TrainingOptions(timeout=timeout))

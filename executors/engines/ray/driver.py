"""Runs distributed training on a Ray cluster (extra `ray`).

A subprocess of this machine drives the run and returns the chief's result, in the form of a single-process worker's
result. It starts the workers, restarts them after a failure, and continues with fewer or more workers as the cluster's
size changes; see `group.py` and `tries.py`.

Usage:

    result = run("generic_trainer.executors.training.worker", request, options, environment={}, model_run=model_run_dir)
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import urlsplit

from absl import logging

from ...errors import InputError, ProcessDiedError, TrainingProcessError
from ...modules.libraries import libraries_of
from ...modules.source import ModuleSource
from ...monitoring import progress, progress_reports
from ...options import TrainingOptions
from ...runtime.files import file_io
from ...runtime.files.retry import log_if_slow
from ...runtime.logs.exceptions import RemoteTraceback, describe, rebuild
from ...runtime.process.preemption import Preempted, deferred_sigterm, is_preempted
from ...runtime.rate_limiter import RateLimiter
from .. import child_process
from ..cluster_options import worker_range
from .bundle import pack
from .losses import Loss, losses, lost_nodes
from .servers import Server, ServerWatch, recorded_servers
from .session import session_folder
from .worker import ReportCollector, Summary

if TYPE_CHECKING:
    from ray.actor import ActorHandle


LOCAL_CLUSTER = "local"
_OBJECT_STORE_BYTES = 200 * 10**6  # of a local cluster; training data does not pass through the object store
_PATHS = (
    "working_dir",
    "train_files",
    "eval_files",
    "schema_path",
    "schema_file",
    "transform_graph_path",
    "transform_output",
    "serving_model_dir",
    "eval_model_dir",
    "model_run_dir",
    "base_model",
    "checkpoint_dir",
)
# 0 makes cluster nodes listen on 127.0.0.1 only, the default on macOS and Windows. There is no other way: Ray replaces
# a loopback address that is passed to `ray.init` with the machine's network address.
_LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
WAITING_SECONDS = 30.0  # between two lines on tasks that have not ended, when others have
_POLL_SECONDS = 0.3
_START_ATTEMPTS = 3  # attempts to start a local cluster
_CONNECT_TIMEOUT = 10.0  # connection timeout of the cluster's address
_LOSS_POLL_SECONDS = 5.0
_LOSS_TIMEOUT = 40.0  # for Ray to declare a node dead
_RESOURCES_TIMEOUT = 300.0  # for an autoscaling cluster to add enough nodes


class DriverRequest(TypedDict):
    """The request to the process that drives a run.

    Attributes:
      worker: See `child_process.run`.
      request: The request for each worker.
      options: `TrainingOptions` as execution properties.
      environment: Variables to add to each worker's environment.
      session: The folder of Ray's session.
      waiting_seconds: See `Tries`.
    """

    worker: str
    request: Mapping[str, Any]
    options: dict[str, str | int | float]
    environment: dict[str, str]
    session: str
    waiting_seconds: float


def require_reachable(options: TrainingOptions) -> None:
    """Checks that Ray is installed, and that the cluster's address answers.

    Raises:
      InputError: When it does not.
    """
    if importlib.util.find_spec("ray") is None:
        raise InputError("engine='ray' needs Ray, which is not installed: pip install 'generic-trainer[ray]'.")
    address = _address(options)
    parts = urlsplit(address if "://" in address else f"//{address}")
    if parts.hostname and parts.port:
        try:
            socket.create_connection((parts.hostname, parts.port), _CONNECT_TIMEOUT).close()
        except OSError as error:
            raise InputError(
                f"cluster_address={address!r} does not answer ({error.strerror or error}). Check that the cluster's "
                "head node is running, and that this is its address."
            ) from error


def run(
    worker: str,
    request: Mapping[str, Any],
    options: TrainingOptions,
    *,
    environment: Mapping[str, str],
    model_run: str,
) -> dict[str, Any]:
    """Runs `execute` of the module `worker` in every worker of a cluster, each with its own cluster task.

    Args:
      worker: See `child_process.run`.
      request: A `TrainingRequest` as JSON values. The content of its module's files is sent to the workers.
      options: Number of workers, resources per worker, and cluster address.
      environment: Variables to add to each worker's environment. Their progress file goes to the driver instead, which
        reports the progress of all workers.
      model_run: The model run folder, for Ray's logs after a failure.

    Returns:
      The chief's result, with `cluster`: the number of workers in each try, the failures, and
      `ThroughputTracker.summary` of the run. If the run failed: only `cluster` and `raised`, the module's exception, or
      a TrainingProcessError when workers died more often than `max_failures`.

    Raises:
      InputError: When the cluster does not respond or lacks resources for the workers.
      ProcessDiedError: When the driver process or the actor that collects the workers' reports has died.
      Preempted: When SIGTERM was received and the workers have ended.
    """
    order = {
        "worker": worker,
        "request": {**request, "fn_args": _with_absolute_paths(request["fn_args"])},
        "options": options.to_exec_properties(),
        "environment": {name: value for name, value in environment.items() if name != progress_reports.VARIABLE},
    }
    variables = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # on a local cluster; by default Ray's servers get priority over the training
    }
    if _address(options) == LOCAL_CLUSTER:
        variables[_LOOPBACK] = "0"
    variables |= {name: value for name, value in environment.items() if name == progress_reports.VARIABLE}
    with session_folder(model_run) as session:
        watch = ServerWatch(session.folder)
        try:
            result = child_process.run(
                __name__,
                {**order, "session": session.folder, "waiting_seconds": WAITING_SECONDS},
                environment=variables,
                timeout=options.timeout,
                what="training on the Ray cluster",
                on_start=watch.begin,
            )
        except Preempted:
            raise
        except Exception as error:  # Ray has many kinds for a server that is gone
            lost = watch.lost()
            if lost or isinstance(error, ProcessDiedError):
                session.keep_logs()
            if lost:
                raise _lost_server_error(lost) from error
            raise
        if "raised" not in result:
            return result
        raised = rebuild(result["raised"])
        if isinstance(raised, ProcessDiedError):
            session.keep_logs()
        if isinstance(raised, TrainingProcessError) and (lost := watch.lost()):
            raised = _lost_server_error(lost)
    return {**result, "raised": raised}


def _lost_server_error(lost: Sequence[Server]) -> ProcessDiedError:
    start = "Start the cluster again, and run" if lost[0].address else "Run"
    return ProcessDiedError(
        f"{lost[0]} died during the run, which ends with it. The machine may have run out of memory. {start} the "
        "command again: it continues where this run has stopped."
    )


def execute(order: DriverRequest) -> dict[str, object]:
    """Drives a run on a cluster; called in a subprocess by `run`."""
    start = time.monotonic()
    options = TrainingOptions.from_exec_properties(order["options"])
    import ray

    _connect(options, order["session"])
    address = _address(options)
    with recorded_servers(order["session"], "" if address == LOCAL_CLUSTER else address):
        outcome = _train(order, options, start)
    with log_if_slow("Ending", "Ray's processes"):
        ray.shutdown()
    return outcome


def _train(order: DriverRequest, options: TrainingOptions, start: float) -> dict[str, object]:
    """Trains on the cluster that this process is connected to; `start` is the start time of the run."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    from .group import HostGroup
    from .tries import Tries

    least, most = (number + options.ps for number in worker_range(options.workers))
    resources = resources_per_worker(options)
    require_resources(resources, least, _RESOURCES_TIMEOUT if _address(options) != LOCAL_CLUSTER else 0)
    # Pin the collector to the driver's node: other machines may leave the cluster before the run ends.
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    collector = ray.remote(num_cpus=0, scheduling_strategy=here)(ReportCollector).remote(options.ps)
    source = ModuleSource.from_json(order["request"]["source"])
    request = {
        "worker": order["worker"],
        "request": {**order["request"], "argv": sys.argv},  # a Ray worker's sys.argv are Ray's arguments
        "bundle": pack(source),
        "collector": collector,
    }
    group = HostGroup(least, most, resources, order["environment"], libraries_of(source.files))
    with deferred_sigterm(), _show_worker_output(collector):
        tries = Tries(group, collector, ray.put(request), options.ps, options.max_failures, order["waiting_seconds"])
        failed = tries.run()
        is_stopped = is_preempted()
    if is_stopped:
        raise Preempted
    return _outcome(ray.get(collector.summary.remote(time.monotonic() - start)), failed)


@contextlib.contextmanager
def _show_worker_output(collector: ActorHandle) -> Iterator[None]:
    """Prints the workers' output and periodic progress lines during the block, and forwards SIGTERM to the workers.

    Raises:
      ProcessDiedError: When the collector has died.
    """
    import ray

    over = threading.Event()
    losses_due, named = RateLimiter(_LOSS_POLL_SECONDS), set[Loss]()

    def show_news(is_last: bool) -> None:
        for loss in lost_nodes(ray.get(collector.members.remote())) if losses_due.is_due() else ():
            if loss not in named:
                named.add(loss)
                logging.warning("%s. Ray restarts the workers when the cluster has enough free resources.", loss)
        sys.stderr.write(ray.get(collector.take_output.remote(is_last, not progress.is_watched())))
        if progress.is_watched() and (total := ray.get(collector.total_progress.remote())):
            progress.report_progress(total["step"], total["examples"] - progress.reported_examples())
            progress.report_details(**total["details"])

    def show() -> None:
        is_last = False
        while not is_last:
            is_last = over.wait(_POLL_SECONDS)
            if is_preempted():
                collector.stop.remote()
            try:
                show_news(is_last)
            except Exception:  # of many kinds, when Ray is gone; the block raises them as well
                logging.debug("The reports of the workers could not be read.", exc_info=True)
            sys.stderr.flush()

    thread = threading.Thread(target=show, name="lines of the workers")
    thread.start()
    try:
        yield
    except ray.exceptions.RayActorError as error:  # those of workers are handled in the block
        raise ProcessDiedError(
            "The run was lost: the actor that all workers report to died, perhaps with its machine. Run it again: it "
            "resumes from its last checkpoint."
        ) from error
    finally:
        over.set()
        thread.join()


def _outcome(summary: Summary, failed: str) -> dict[str, object]:
    """Returns the chief's result with `cluster`; if the run failed, `cluster` and `raised`, the described error."""
    tries, failures = summary["tries"], summary["failures"]
    last_ones = [failure for failure in failures if failure["attempt"] == len(tries)]
    is_blamed = any(not failure["alone"] for failure in last_ones)  # `alone`: lost contact to it
    is_loss_likely = failed and not summary["verdict"] and not is_blamed
    lost = losses(summary["silent"], _LOSS_TIMEOUT if is_loss_likely else 0.0)
    messages = [f"{one['task']}: {one['error']['message']}" for one in failures] + [str(loss) for loss in lost]
    cluster = {"workers": tries, "failures": messages, **summary["pace"]}
    if summary["verdict"]:
        return {"raised": summary["verdict"], "cluster": cluster}
    if not failed:
        for one in messages:
            logging.warning("Training continued after a failure: %s", one)
        return {**summary["result"], "cluster": cluster}
    failed_after = f"Training failed after {len(tries)} attempt{'' if len(tries) == 1 else 's'}"
    lost_last = [loss for loss in lost if loss.attempt == len(tries)]
    if lost_last and not is_blamed:
        return {"raised": describe(_lost_workers_error(failed_after, lost_last)), "cluster": cluster}
    if not failures:
        return {"raised": describe(ProcessDiedError(f"{failed_after}: {failed}")), "cluster": cluster}
    last = next((failure for failure in last_ones if not failure["alone"]), failures[-1])
    error = rebuild(last["error"])
    raised = TrainingProcessError(
        f"{failed_after}; in the last one, {last['task']} raised {type(error).__name__}: {error}"
    )
    raised.__cause__ = RemoteTraceback(last["error"]["traceback"])
    return {"raised": describe(raised), "cluster": cluster}


def _lost_workers_error(failed_after: str, lost: Sequence[Loss]) -> ProcessDiedError:
    """Returns the error of a run whose last try ended because worker processes or nodes were lost."""
    return ProcessDiedError(
        f"{failed_after}: {'; '.join(map(str, lost))}. The other workers cannot continue without it. Run it again: it "
        "resumes from its last checkpoint. With max_failures=N, Ray restarts the workers up to N times."
    )


def _with_absolute_paths(fn_args: dict[str, object]) -> dict[str, object]:
    """Returns the arguments with absolute paths, which are valid in any working directory."""
    return fn_args | {name: _absolute(fn_args[name]) for name in _PATHS}


def _absolute(value: object) -> object:
    if isinstance(value, list):
        return [_absolute(one) for one in value]
    return file_io.absolute_path(value) if isinstance(value, str) and value else value


def resources_per_worker(options: TrainingOptions) -> dict[str, float]:
    """Returns the resources of each worker by Ray's resource names; zero amounts are left out."""
    resources = {"CPU": options.cpus_per_worker, "GPU": options.gpus_per_worker}
    if options.memory_gb_per_worker is not None:
        resources["memory"] = options.memory_gb_per_worker * 1e9
    return {name: amount for name, amount in resources.items() if amount}


def require_resources(resources: Mapping[str, float], workers: int, patience: float) -> None:
    """Waits until the cluster's total resources suffice for the workers.

    Args:
      resources: Resources per worker.
      workers: Minimum number of workers, including parameter servers.
      patience: Timeout in seconds.

    Raises:
      InputError: When the resources are missing at the timeout; the message lists what the cluster has.
    """
    import ray

    end = time.monotonic() + patience
    while True:
        available = ray.cluster_resources()
        missing = [name for name, amount in resources.items() if available.get(name, 0) < amount * workers]
        if not missing:
            return
        if time.monotonic() >= end:
            wanted = ", ".join(f"{amount * workers:g} {name}" for name, amount in resources.items())
            found = ", ".join(f"{available.get(name, 0):g} {name}" for name in resources)
            raise InputError(
                f"{workers} workers and parameter servers need {wanted} in total; the cluster has {found}. Use fewer "
                "(workers, ps), or request less for each (cpus_per_worker, gpus_per_worker, memory_gb_per_worker)."
            )
        logging.log_every_n_seconds(logging.INFO, "Waiting for %s on the cluster.", 30, " and ".join(missing))
        time.sleep(1)


def _address(options: TrainingOptions) -> str:
    return options.cluster_address or os.environ.get("RAY_ADDRESS") or LOCAL_CLUSTER


def _connect(options: TrainingOptions, session: str) -> None:
    """Connects to the cluster, or starts a local one that ends with this process.

    Args:
      options: Options with the cluster address.
      session: The folder for the files of a local cluster.
    """
    import ray

    address = _address(options)
    if address == LOCAL_CLUSTER:
        os.environ.pop("RAY_ADDRESS", None)
        _start_cluster(session)
        return
    try:
        ray.init(address, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise InputError(f"cluster_address={address!r}: {error}") from error


def _start_cluster(session: str) -> None:
    """Starts a local cluster; retries when Ray's processes time out, as on a busy machine."""
    import ray

    for left in reversed(range(_START_ATTEMPTS)):
        try:
            ray.init(
                LOCAL_CLUSTER,
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                log_to_driver=False,
                _temp_dir=session,
            )
        except Exception as error:  # Ray has no specific exception class for a startup timeout
            if not left or "timed out" not in str(error):
                raise
            logging.warning("The Ray cluster did not start in time; retrying.")
            ray.shutdown()
        else:
            return

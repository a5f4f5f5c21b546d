"""The listening sockets of a run's processes while it runs."""

from __future__ import annotations

import ipaddress
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psutil
import pytest

Module = Callable[..., str]

# Each task writes the listening sockets of all processes of the run while all tasks train.
LISTENING = """
    import json
    import os
    import time
    import psutil
    import tensorflow as tf

    def run_fn(fn_args):
        folder = fn_args.custom_config["folder"]
        task = json.loads(os.environ["TF_CONFIG"])
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        with strategy.scope():
            w = tf.Variable(1.0)
        @tf.function
        def step():
            return strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", w + 0.0))
        step()
        if task["task"]["index"] == 0:
            open(os.path.join(folder, "config"), "w").write(json.dumps(task["cluster"]))
            open(os.path.join(folder, "ready"), "w").close()
        while not os.path.exists(os.path.join(folder, "seen")):
            time.sleep(0.1)
        step()
        model = tf.Module()
        model.w = tf.Variable(1.0)
        model.serve = tf.function(lambda examples: {"y": tf.zeros(tf.shape(examples)) + model.w})
        specification = tf.TensorSpec([None], tf.string, name="examples")
        signatures = {"serving_default": model.serve.get_concrete_function(specification)}
        tf.saved_model.save(model, fn_args.serving_model_dir, signatures=signatures)
"""


def listeners(pid: int) -> dict[tuple[str, int], str]:
    """Returns the listening TCP and bound UDP sockets of a process and its descendants."""
    found = {}
    first = psutil.Process(pid)
    for process in [first, *first.children(recursive=True)]:
        try:
            for one in process.net_connections("inet"):
                if one.status == psutil.CONN_LISTEN or (one.status == psutil.CONN_NONE and one.laddr and not one.raddr):
                    found[one.laddr.ip, one.laddr.port] = process.name()
        except psutil.Error:
            continue  # it has ended meanwhile
    return found


def is_loopback(ip: str) -> bool:
    address = ipaddress.ip_address(ip)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def sockets_of(module: str, data: str, folder: pathlib.Path, *flags: object) -> tuple[Any, Any, str]:
    """Runs `train`; returns its sockets while all tasks train, the cluster of TF_CONFIG, and its output."""
    import json
    import time

    line = [sys.executable, "-m", "generic_trainer.cli.main", "train", module, "--train-files", data]
    line += ["--output", folder / "out", "--custom-config", json.dumps({"folder": str(folder)}), *flags]
    with open(folder / "printed", "w") as printed:
        run = subprocess.Popen([*map(str, line)], stdout=printed, stderr=subprocess.STDOUT, env={**os.environ})
        deadline = time.monotonic() + 500
        while not (folder / "ready").exists() and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.2)
        found = listeners(run.pid)
        (folder / "seen").touch()
        run.wait(300)
    text = (folder / "printed").read_text()
    assert run.returncode == 0, text[-5000:]
    return found, json.loads((folder / "config").read_text()), text


@pytest.mark.thorough_but("flags0")
@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ("--cluster", "worker=2"),
        ("--engine", "ray", "--workers", 2, "--cpus-per-worker", 0.5),
    ],
)
def test_only_tensorflows_own_servers_listen_beyond_this_machine(
    flags: tuple[object, ...], module: Module, iris: Any, tmp_path: pathlib.Path
) -> None:
    """TensorFlow's servers listen on 0.0.0.0 regardless of TF_CONFIG; see SECURITY.md."""
    if "ray" in flags:
        pytest.importorskip("ray")
    found, cluster, _ = sockets_of(module(LISTENING), iris.train, tmp_path, *flags)
    ports = {int(address.rpartition(":")[2]) for addresses in cluster.values() for address in addresses}
    assert all(address.startswith(("localhost:", "127.0.0.1:")) for one in cluster.values() for address in one)
    assert ports <= {port for _, port in found}  # so the sockets of the workers were recorded
    assert {key: name for key, name in found.items() if not is_loopback(key[0]) and key[1] not in ports} == {}
    if "ray" in flags:
        assert {"gcs_server", "raylet"} <= set(found.values())

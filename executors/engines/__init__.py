"""Engines execute a worker: in this process, in a subprocess or on a cluster.

A worker is a module with `execute(request) -> result`, both JSON values:

    result = local.run_in_process("generic_trainer.executors.training.worker", request)
    result = child_process.run("generic_trainer.executors.training.worker", request, environment={...})
"""

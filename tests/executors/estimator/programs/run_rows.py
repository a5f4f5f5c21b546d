"""Runs rows, each a function of a module in this folder, and prints one line of JSON for each.

python run_rows.py FOLDER canned.linear_classifier custom.layers …

Each row gets a separate folder and returns numbers, or None. A row fails by raising.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback


def main(folder: str, rows: list[str]) -> None:
    import tensorflow as tf

    if "estimator" not in dir(tf):
        from generic_trainer.executors.estimator import restore_estimator

        restore_estimator()
    for row in rows:
        print(json.dumps({"row": row, **_run(row, os.path.join(folder, row))}), flush=True)


def _run(row: str, folder: str) -> dict[str, object]:
    import tensorflow as tf

    os.makedirs(folder)
    module, function = row.split(".")
    tf.keras.utils.set_random_seed(1)
    began = time.monotonic()
    try:
        returned = getattr(importlib.import_module(module), function)(folder)
    except Exception:
        return {"error": traceback.format_exc(limit=-12)}
    return {"returned": returned, "seconds": round(time.monotonic() - began, 1)}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

"""Runs rows, each a function of a module in this folder, and prints one line of JSON for each.

python run_rows.py FOLDER layers.hashing names.modes …

Each row gets a separate folder. A row fails by raising.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import sys
import traceback


def main(folder: str, rows: list[str]) -> None:
    from generic_trainer.executors.dialects.elasticdl.shim import provide_elasticdl

    provide_elasticdl()
    for row in rows:
        print(json.dumps({"row": row, **run(row, pathlib.Path(folder, row))}), flush=True)


def run(row: str, folder: pathlib.Path) -> dict[str, str]:
    import tensorflow as tf

    os.makedirs(folder)
    module, function = row.split(".")
    tf.keras.utils.set_random_seed(1)
    try:
        getattr(importlib.import_module(module), function)(folder)
    except Exception:
        return {"error": traceback.format_exc(limit=-12)}
    return {}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])

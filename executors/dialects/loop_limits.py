"""Limits the training loops of trial runs."""

from __future__ import annotations

from ..fn_args import FnArgs


def limit_loop(fn_args: FnArgs, steps: int) -> None:
    """Limits a training loop that is configured by `fn_args` and `custom_config` to a few steps, in place.

    Also sets `eval_steps` to 1, and removes the user's directories (`checkpoint_dir`, `use_conf_model_dir`) from a copy
    of `custom_config`.

    Args:
      fn_args: The trial run's arguments.
      steps: The maximum number of training steps.
    """
    fn_args.train_steps = min(fn_args.train_steps or steps, steps)
    fn_args.eval_steps = 1
    config = fn_args.custom_config = dict(fn_args.custom_config or {})
    for name in ("max_step", "max_steps"):
        if config.get(name):
            config[name] = min(config[name], steps)
    for name in ("checkpoint_dir", "use_conf_model_dir"):
        config.pop(name, None)

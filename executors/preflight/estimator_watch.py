"""Records training, evaluation and export of Estimators, and stops their loops after a few steps."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from ..compat import tensorflow_estimator as compat
from ..keras.interception import replaced

if TYPE_CHECKING:
    import tensorflow as tf

    from .watch import Watch

P = ParamSpec("P")
R = TypeVar("R")


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Patches all Estimators for the duration of the block; a no-op if no module has imported them."""
    estimator, constructor = compat.estimator_class(), compat.executor_constructor()
    if estimator is None or constructor is None:
        yield
        return
    seen = _Seen(watch)
    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(*constructor, seen.plan))
        stack.enter_context(replaced(estimator, "train", seen.train))
        stack.enter_context(replaced(estimator, "evaluate", seen.evaluate))
        stack.enter_context(replaced(*compat.model_fn_call(estimator), seen.call_model_fn))
        stack.enter_context(replaced(*compat.export_call(estimator), seen.export_all_saved_models))
        yield


class _Seen:
    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._is_planned = False  # whether train_and_evaluate's specs have set planned_steps

    def plan(self, original: Callable[..., None], executor: object, *args: object, **options: object) -> None:
        """Replaces the constructor of `train_and_evaluate`'s executor: limits the steps of both specs."""
        bound = inspect.signature(original).bind(executor, *args, **options)
        given = bound.arguments
        most, enough = given["train_spec"].max_steps, self._watch.most_steps
        self._watch.planned_steps, self._is_planned = most, True
        given["train_spec"] = given["train_spec"]._replace(max_steps=min(most or enough, enough))
        given["eval_spec"] = given["eval_spec"]._replace(steps=1)
        original(*bound.args, **bound.kwargs)

    def train(
        self, original: Callable[..., R], estimator: tf.estimator.Estimator, *args: object, **options: object
    ) -> R:
        """Replaces `Estimator.train`: limits `max_steps` and adds a hook that reports each step."""
        bound = inspect.signature(original).bind(estimator, *args, **options)
        given = bound.arguments
        asked, enough = given.get("steps") or given.get("max_steps"), self._watch.most_steps
        if not self._is_planned:
            self._watch.planned_steps = asked
        given.pop("steps", None)
        given["max_steps"] = min(asked or enough, enough)
        given["hooks"] = [*(given.get("hooks") or ()), _step_hook(self._watch)]
        result = original(*bound.args, **bound.kwargs)
        self._watch.enter("training")
        return result

    def evaluate(
        self, original: Callable[..., R], estimator: tf.estimator.Estimator, *args: object, **options: object
    ) -> R:
        """Replaces `Estimator.evaluate`: evaluates one batch."""
        bound = inspect.signature(original).bind(estimator, *args, **options)
        bound.arguments["steps"] = 1
        self._watch.enter("evaluation")
        values = original(*bound.args, **bound.kwargs)
        self._watch.evaluations += 1
        if self._watch.in_loop:  # an evaluation after a checkpoint, between two training steps
            self._watch.enter("training")
        return values

    def call_model_fn(
        self,
        original: Callable[Concatenate[tf.estimator.Estimator, P], R],
        estimator: tf.estimator.Estimator,
        *args: P.args,
        **options: P.kwargs,
    ) -> R:
        """Replaces the call of `model_fn`: records the number of weights in the graph."""
        import tensorflow as tf

        spec = original(estimator, *args, **options)
        if not self._watch.model:
            weights = sum(variable.shape.num_elements() or 0 for variable in tf.compat.v1.trainable_variables())
            self._watch.model = f"{type(estimator).__name__}, {weights:,} weights"
        return spec

    def export_all_saved_models(
        self,
        original: Callable[Concatenate[tf.estimator.Estimator, str, P], R],
        estimator: tf.estimator.Estimator,
        folder: str,
        *args: P.args,
        **options: P.kwargs,
    ) -> R:
        """Replaces the SavedModel export: records its folder."""
        in_loop, self._watch.in_loop = self._watch.in_loop, False
        try:
            self._watch.note_save(str(folder))
            return original(estimator, folder, *args, **options)
        finally:
            self._watch.in_loop = in_loop


def _step_hook(watch: Watch) -> tf.compat.v1.train.SessionRunHook:
    import tensorflow as tf

    v1 = tf.compat.v1

    class Steps(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc]
        """Reports each step, with the last loss in the graph's LOSSES collection if there is one."""

        def begin(self) -> None:
            losses = v1.get_collection(v1.GraphKeys.LOSSES)
            self._loss = losses[-1] if losses else None

        def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
            del session, coord
            self._stack = contextlib.ExitStack()
            self._stack.enter_context(watch.loop())

        def before_run(
            self, run_context: tf.compat.v1.train.SessionRunContext
        ) -> tf.compat.v1.train.SessionRunArgs | None:
            del run_context
            return None if self._loss is None else v1.train.SessionRunArgs(self._loss)

        def after_run(
            self, run_context: tf.compat.v1.train.SessionRunContext, run_values: tf.compat.v1.train.SessionRunValues
        ) -> None:
            del run_context
            watch.step(float(run_values.results) if self._loss is not None else None)

        def end(self, session: tf.compat.v1.Session) -> None:
            del session
            self._stack.close()

    return Steps()

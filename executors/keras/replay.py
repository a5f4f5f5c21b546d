"""Replays the epochs of a restored fit to callbacks that log them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from .interception import keras_of

if TYPE_CHECKING:
    import keras

TAKES_REPLAY = "takes_replay"  # attribute of this package's callbacks that only read an epoch's logs


def replay(
    model: keras.Model,
    history: keras.callbacks.History,
    callbacks: Sequence[keras.callbacks.Callback],
    validation_freq: int | Collection[int] = 1,
) -> None:
    """Calls TensorBoard and the callbacks with `TAKES_REPLAY` as `fit` does at the end of each epoch.

    This writes the metrics to the event files of this run; the failed run's event files may have been deleted.
    Histograms of weights are not written, because the weights of each epoch are not available.

    Args:
      model: The restored model.
      history: The restored fit's History.
      callbacks: All callbacks passed to `fit`.
      validation_freq: The argument of `fit`.
    """
    module = keras_of(model).callbacks
    chosen = [one for one in callbacks if isinstance(one, module.TensorBoard) or getattr(one, TAKES_REPLAY, False)]
    if not chosen:
        return
    frequencies = {one: one.histogram_freq for one in chosen if isinstance(one, module.TensorBoard)}
    for board in frequencies:
        board.histogram_freq = 0
    stopped = model.stop_training
    listed = module.CallbackList(chosen, add_history=False, add_progbar=False, model=model, **dict(history.params))
    listed.on_train_begin()
    for epoch, logs in _epochs(history, validation_freq):
        listed.on_epoch_begin(epoch)
        listed.on_epoch_end(epoch, logs)
    listed.on_train_end()
    model.stop_training, model.history = stopped, history
    for board, frequency in frequencies.items():
        board.histogram_freq = frequency


def _epochs(
    history: keras.callbacks.History, validation_freq: int | Collection[int]
) -> Iterator[tuple[int, Mapping[str, float]]]:
    """Yields each epoch with its logs; validation metrics that were not computed in every epoch are aligned."""
    count = max((len(series) for series in history.history.values()), default=0)
    last = history.epoch[-1] if history.epoch else count - 1
    epochs = range(last - count + 1, last + 1)  # a fit resumed in the middle lists only its later epochs
    validated = [epoch for epoch in epochs if _is_validated(epoch, validation_freq)]
    logs: dict[int, dict[str, float]] = {epoch: {} for epoch in epochs}
    for name, series in history.history.items():
        for places in (epochs, validated):
            if len(series) == len(places):
                for epoch, value in zip(places, series, strict=True):
                    logs[epoch][name] = value
                break
    yield from logs.items()


def _is_validated(epoch: int, frequency: int | Collection[int]) -> bool:
    return (epoch + 1) % frequency == 0 if isinstance(frequency, int) else epoch + 1 in frequency

"""Determines by a metric's name whether higher or lower values are better.

is_higher_better("eval/auc")   # True
is_higher_better("val_loss")   # False
is_higher_better("weight")     # None: unknown
"""

from __future__ import annotations

import re

_LOWER = re.compile(
    r"loss|error|(^|_)(mse|mae|mape|msle|rmse|kld|perplexity)($|_)|crossentropy|cross_entropy|divergence"
)
_HIGHER = re.compile(
    r"accuracy|precision|recall|similarity|(^|_)(auc|acc|f1|f_beta|fbeta|iou|mean_iou|r2|r2_score|ndcg|bleu|map)($|_|@)"
)


def is_higher_better(metric: str) -> bool | None:
    """Returns whether higher values of a metric are better; None if its name matches no known metric.

    A split in front of the name, as in "eval/auc", is ignored; "BinaryAccuracy" is treated as "binary_accuracy".
    """
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", metric.rpartition("/")[2]).lower()
    if _LOWER.search(name):
        return False
    return True if _HIGHER.search(name) else None

"""What the user decides about the evaluation plan."""

from __future__ import annotations

import pytest

from generic_trainer import InputError
from generic_trainer.executors.evaluation.overrides import labels_in, overrides_of
from generic_trainer.executors.evaluation.plan import Overrides


def test_a_label_may_be_given_for_each_output() -> None:
    assert labels_in("") == {}
    assert labels_in("big_tip") == {"": "big_tip"}
    assert labels_in("Price, in dollars") == {"": "Price, in dollars"}
    assert labels_in("price=price_xf, click=click_xf") == {"price": "price_xf", "click": "click_xf"}
    assert labels_in("price_xf,click=click_xf") == {"": "price_xf", "click": "click_xf"}


@pytest.mark.parametrize("text", ["=price", "price=", "price=a,price=b"])
def test_a_label_in_another_form_is_refused_with_the_right_one(text: str) -> None:
    with pytest.raises(InputError, match="Use FEATURE, or OUTPUT=FEATURE,OUTPUT=FEATURE"):
        labels_in(text)


def test_options_that_are_not_given_leave_the_decision_to_the_evidence() -> None:
    assert overrides_of({"data": "taxi/", "task": "auto"}) == Overrides()
    given = {"label": "y", "task": "binary", "scores": "logits", "eval_signature": "score", "eval_output": "logit"}
    assert overrides_of(given) == Overrides({"": "y"}, "binary", "logits", "score", "logit")

"""User overrides of the evaluation plan."""

from __future__ import annotations

import pytest

from generic_trainer import InputError
from generic_trainer.executors.evaluation.overrides import overrides_of, parse_labels
from generic_trainer.executors.evaluation.plan import Overrides


def test_a_label_may_be_given_for_each_output() -> None:
    assert parse_labels("") == {}
    assert parse_labels("big_tip") == {"": "big_tip"}
    assert parse_labels("Price, in dollars") == {"": "Price, in dollars"}
    assert parse_labels("price=price_xf, click=click_xf") == {"price": "price_xf", "click": "click_xf"}
    assert parse_labels("price_xf,click=click_xf") == {"": "price_xf", "click": "click_xf"}


@pytest.mark.parametrize("text", ["=price", "price=", "price=a,price=b"])
def test_a_malformed_label_is_rejected_with_the_correct_form(text: str) -> None:
    with pytest.raises(InputError, match="Use FEATURE, or OUTPUT=FEATURE,OUTPUT=FEATURE"):
        parse_labels(text)


def test_unset_options_are_derived_from_the_evidence() -> None:
    assert overrides_of({"data": "taxi/", "task": "auto"}) == Overrides()
    given = {"label": "y", "task": "binary", "scores": "logits", "eval_signature": "score", "eval_output": "logit"}
    assert overrides_of(given) == Overrides({"": "y"}, "binary", "logits", "score", "logit")

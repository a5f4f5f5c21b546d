"""The lines that end a failed command: each sentence once, none long, the problem last."""

from __future__ import annotations

import pytest

from generic_trainer.executors.runtime.logs.error_output import MAX_CHARACTERS, error_lines
from generic_trainer.executors.runtime.logs.exceptions import one_line_message
from generic_trainer.executors.runtime.logs.framework_messages import inner_error

PROBLEM = "generic-trainer: out/model contains no SavedModel, only m.pkl."
SENTENCES = [PROBLEM, *(f"Sentence {number} has {'many ' * 20}words." for number in range(8))]


@pytest.mark.parametrize("count", [1, 3, 5, 9])
def test_no_sentence_stands_twice_and_the_last_line_has_the_problem(count: int) -> None:
    lines = list(error_lines(" ".join(SENTENCES[:count])))

    assert lines[-1].startswith(PROBLEM)
    assert max(map(len, lines)) <= MAX_CHARACTERS
    text = " ".join(lines)
    assert [text.count(sentence) for sentence in SENTENCES[:count]] == [1] * count


def test_a_problem_that_is_too_long_is_shown_in_full_and_then_shortened() -> None:
    problem = f"generic-trainer: the values {'1.25, ' * 100}are not equal"
    lines = list(error_lines(problem))
    assert " ".join(lines[:-1]).replace("  ", " ") == problem
    assert len(lines[-1]) <= MAX_CHARACTERS


ITERATOR = (
    "Graph execution error:\n\nDetected at node ParseExample defined at (most recent call last):\n"
    "<stack traces unavailable>\nError in user-defined function passed to MapDataset:4 transformation with iterator: "
    "Iterator::Root::Prefetch::ForeverRepeat[0]::ParallelMapV2: Name: <unknown>, Feature: width (data type: float) is "
    "required but could not be found.\n\t [[{{node ParseExample}}]]\n\t [[IteratorGetNext]] [Op:__inference_step_1]"
)
QUOTE = (
    'in user code:\n\n    File "a.py", line 3, in None  *\n        lambda x: x + "a"\n\n    TypeError: int32 and str.\n'
)


def test_messages_of_tensorflow_have_their_cause_only() -> None:
    assert one_line_message(ValueError(ITERATOR)) == (
        "Feature: width (data type: float) is required but could not be found."
    )
    assert inner_error(TypeError(QUOTE)) == ("TypeError", "int32 and str.\n")
    assert inner_error(TypeError("int32 and str.")) is None

"""Preflight check: finds out whether a run would succeed, why it would fail, and how long it would take.

request.py             the run to check
check.py               entry point: static checks in this process, the others in subprocesses
attempts.py            tries raw or transformed examples, schemas with or without shapes, and both versions of Keras
adaptation.py          chooses the next attempt from the failure and from what input_watch.py recorded
files.py               checks of the run's input files
worker.py              the process that trains for a few steps, by `training.worker` with a callback
module_checks.py       signatures of the module's functions
examples.py            gets the examples; example_checks.py checks them; sample.py samples real ones into files
example_facts.py       statistics of the examples, compared with the schema
raw_data.py            prepares raw data, by raw_examples.py (examples and schema) and raw_transform.py (Transform)
trial.py               verdicts on a training, in which watch.py and loops.py record each step, and the estimate
verdicts.py            the results; places.py and remedies.py: the user's line, and advice
stamp.py               caches passed checks
"""

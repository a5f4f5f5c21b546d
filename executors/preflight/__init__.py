"""The check before a run: would it go through, what stands in its way, and how long would it take?

request.py        what is to be checked
check.py          the whole of it: static items here, the others in processes of their own
attempts.py       raw or transformed examples, shapes or none: what is tried; attempt.py: one attempt
adaptation.py     what suggests another attempt, by what input_watch.py saw of the input pipeline
files.py          the files that a run is given
worker.py         the process that loads the module, reads examples and tries a training
module_checks.py  dialect, and signatures of the module's functions
sample.py         a few real examples in files of the same form
example_facts.py  what they hold, compared with the schema
made_up.py        examples made up from a schema
raw_data.py       examples out of raw data, and their schema; raw_transform.py: Transform on them
trial.py          a training cut short, in which watch.py, keras_watch.py and estimator_watch.py see each step
estimate.py       time and memory for the steps that were asked for
verdicts.py       what comes out; places.py and remedies.py: the user's line, and what to do
stamp.py          what has passed before is not checked again
"""

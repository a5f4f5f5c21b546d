"""The dialect of ElasticDL model files: a module with a Keras model, `feed`, loss, optimizer and metrics.

parts.py              access to the definitions of a model file, in all supported forms
options.py            the supported flags of ElasticDL's command
job.py                adapts a model file to a Keras model for `fit` and `evaluate`
metrics.py            adapts `eval_metrics_fn` to Keras metrics
loop.py               training loop with ElasticDL's evaluation and checkpoint intervals and limits
shared_batches.py     divides global batches among workers
passes.py             passes over a dataset with one iterator
grouped_steps.py      runs several training steps per call
repeated_evaluation.py  evaluates the same batches again and again
best_weights.py       keeps the weights of the best evaluation
parameter_servers.py  training with parameter servers
predictions.py        writes predictions
export.py             exports the SavedModel
run.py                entry points: train, evaluate, predict
worker.py             evaluation and prediction in a subprocess

dialect.py            the `Dialect` subclass
detection.py          detects model files before they are imported
prepare/              data preparation with a model file
shim/                 the ElasticDL names that model files import
"""

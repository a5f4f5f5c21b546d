"""The dialect of ElasticDL model files: a module with a Keras model, `feed`, loss, optimizer and metrics.

parts.py              access to the definitions of a model file, in all supported forms
options.py            the supported flags of ElasticDL's command
job.py                adapts a model file to a Keras model for `fit` and `evaluate`
metrics.py            adapts `eval_metrics_fn` to Keras metrics
readers/              readers of records: custom, MaxCompute, files of any format
recordio/             RecordIO files
data.py               records, what `feed` returns for them, and batches
training.py           trains: on one machine, on several workers, with parameter servers
loop.py               epochs and steps
schedule.py           intervals of log lines, checkpoints and evaluations
checkpoints.py        weights, optimizer and position in the data
evaluation.py         evaluations, best weights and summaries
shared_batches.py     divides global batches among workers
end_marks.py          passes over a dataset with one iterator
repeated_evaluation.py  evaluates the same batches again and again
best_weights.py       keeps the weights of the best evaluation
parameter_servers.py  training with parameter servers
predictions.py        writes predictions
export.py             exports the SavedModel
record_reader.py      how `predict` reads CSV files for it
run.py                evaluates and predicts
worker.py             evaluation and prediction in a subprocess

dialect.py            the `Dialect` subclass
detection.py          detects model files before they are imported
command/              `generic-trainer elasticdl`
prepare/              data preparation with a model file
shim/                 the ElasticDL names that model files import
"""

"""The dialect of ElasticDL: a model file with a Keras model, its `feed`, loss, optimizer and metrics.

    parts.py      the parts of a file, in every form they had
    options.py    the flags of ElasticDL's command that still mean something
    job.py        the file as a Keras model that `fit` can run
    metrics.py    its metrics
    loop.py       training with ElasticDL's evaluations, checkpoints and limits
    export.py     the SavedModel
    run.py        training, evaluation and prediction, put together

    dialect.py    the dialect
    detection.py  how a model file is recognized before it is imported
    prepare/      data preparation with a model file

The names that model files import from ElasticDL are provided by `shim/`.
"""

"""The dialect of DLRover: a conf class that names an Estimator, columns, and readers.

    class TrainConf:
        classifier_class = MyEstimator        # called with (model_dir, config, params)
        model_dir = "/nas/model"
        max_steps = 1000
        train_set = {"reader": FileReader("train.csv"), "columns": (…), "batch_size": 64, "epoch": 10}
        eval_set = {"reader": FileReader("eval.csv"), "columns": train_set["columns"]}

    conf.py       reads and checks the attributes of a conf, including those that DLRover documented but ignored
    columns.py    the column definitions, and decoding of rows to tensors
    sources.py    chooses the row source of a data set
    source.py     rows in a fixed order, as input of the Estimator, with a position for resuming
    range_source.py       rows of readers with index ranges, which workers can share
    sequential_source.py  rows of iterators
    sharding/     index ranges: readers, the ledger that assigns them, and how workers share it
    text/         delimited text: the lines of a file, decoding to tensors, invalid rows
    examples.py   parsing of tf.Examples by the conf's columns
    serving.py    the serving signatures of the exported model
    estimator.py  construction of the Estimator
    checkpoints.py  checkpoints with the position in the data
    run.py        entry point: trains, evaluates and exports

    command/      `generic-trainer dlrover`, and ElasticJob manifests as job files of `submit`
    dialect.py    the `Dialect` subclass; detects confs before they are imported

The DLRover names that confs import are provided by `shim/`.
"""

"""The dialect of DLRover: a conf class that names an Estimator, columns, and readers.

    class TrainConf:
        classifier_class = MyEstimator        # called with (model_dir, config, params)
        model_dir = "/nas/model"
        max_steps = 1000
        train_set = {"reader": FileReader("train.csv"), "columns": (…), "batch_size": 64, "epoch": 10}
        eval_set = {"reader": FileReader("eval.csv"), "columns": train_set["columns"]}

    conf.py       the attributes of a conf, those too that DLRover documented and ignored
    columns.py    columns: which is the label, and how rows become tensors
    sources.py    where a set's rows come from, and how far they have been trained
    data.py       a set's rows as batches for the Estimator
    examples.py   tf.Examples in place of rows
    serving.py    what the exported model is fed with
    estimator.py  the Estimator that a conf names
    run.py        training, evaluation and export, put together

    dialect.py    the dialect
    detection.py  how a conf is recognized before it is imported

The names that confs import from DLRover are provided by `shim/`.
"""

"""Batch prediction with a SavedModel: the implementation of `generic-trainer predict`.

request.py     arguments, validated before TensorFlow is imported
signature.py   one signature of the model, with its inputs and parsed features
feed.py        converts a batch of examples to the signature's inputs; arrays.py: one named input
predict.py     the loop over all batches; classes.py: the predicted classes
joined_columns.py    columns of the examples that are written beside the predictions
files.py       writes predictions as JSON lines, CSV, Parquet or TFRecords; formulas.py: texts for spreadsheets
"""

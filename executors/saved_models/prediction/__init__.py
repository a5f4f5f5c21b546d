"""Batch prediction with any SavedModel: what `generic-trainer predict` does.

request.py     what was asked for; looked over before TensorFlow is imported
signature.py   one signature of the model, and what it takes
feed.py        a batch of examples as what the signature takes; arrays.py: one named input of it
predict.py     the loop over all batches
files.py       predictions as JSON lines, CSV or TFRecords
"""

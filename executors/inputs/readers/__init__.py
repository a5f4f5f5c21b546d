"""Finds the files of records, and keeps the exceptions of readers in tf.data."""

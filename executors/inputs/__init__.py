"""Reading of example files as tf.data datasets and Arrow record batches."""

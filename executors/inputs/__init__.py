"""Examples on disk as `tf.data` and Arrow."""

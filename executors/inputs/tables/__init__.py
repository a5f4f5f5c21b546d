"""Reading of Arrow tables as tensors, record batches and tf.Examples."""

"""TFRecord files: framing and checksums, scanning for bad records, range reads, and tf.data datasets."""

"""TFRecord files: framing, scanning, ranges and datasets."""

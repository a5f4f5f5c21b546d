"""Cache of parsed examples on local disk, and block-wise assembly of batches of tensors."""

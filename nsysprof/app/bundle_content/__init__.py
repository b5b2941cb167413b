"""Make the content of a bundle, of one trace or of all ranks."""

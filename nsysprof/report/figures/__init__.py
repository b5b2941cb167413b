"""Draw figures, each from one result into one file."""

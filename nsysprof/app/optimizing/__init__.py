"""Do the steps of `optimize`: read what the program does, tune its shapes, predict the gain, list what to try."""

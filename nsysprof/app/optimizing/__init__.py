"""The steps of `optimize`: what the program does, which backends are faster, what else to try."""

"""Choose which shapes of a program are tuned, and compute what their faster backends save it."""

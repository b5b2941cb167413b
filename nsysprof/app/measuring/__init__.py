"""Hold the use cases that start a program, or a grid of attention, and measure it."""

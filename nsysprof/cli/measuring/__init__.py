"""Define the commands that start a program, or a grid of attention, and measure it."""

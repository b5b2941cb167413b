"""Find the steps of a program, and measure how long each took."""

"""Find the steps of a program in its trace, and measure how long each took."""

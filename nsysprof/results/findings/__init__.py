"""Hold what costs a program time, and the samples that name the line of code."""

"""Read the tables of a trace: a module for each kind of row."""

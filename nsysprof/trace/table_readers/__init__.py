"""Read the tables of a trace; there is one module for each kind of row."""

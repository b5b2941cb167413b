"""Write to the terminal: results, progress, and standard streams that may be closed."""

"""Print on the terminal: results, progress, and streams that may go away."""

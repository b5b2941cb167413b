"""Compare a baseline with a candidate."""

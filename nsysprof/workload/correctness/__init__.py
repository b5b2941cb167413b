"""Compare a backend with a float64 reference before anything is timed."""

"""Check a backend against a float64 reference before anything is timed."""

"""Compute statistics of measured samples: intervals, tests and winners."""

"""Analyze many traces at once: summarize each into a bounded size, and merge the summaries here or on Dask."""

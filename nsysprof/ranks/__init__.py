"""Analyse many traces at once: summarize each one in bounded size, and merge the summaries here or on Dask."""

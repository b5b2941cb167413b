"""Compose the parts that reports consist of: tables, verdicts, descriptions of figures, and methods."""

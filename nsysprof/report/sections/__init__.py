"""Compose the parts of a report: tables, verdicts and methods."""

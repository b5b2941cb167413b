"""Analyze one trace, or all ranks of a job: steps that several use cases share."""

"""Analyze one trace, or all ranks of a job: the steps that several use cases share."""

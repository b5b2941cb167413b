"""Make the content of a bundle from one trace, or from all ranks of a job."""

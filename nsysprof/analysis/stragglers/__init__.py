"""Judge the ranks of a job: which the others wait for, in which ranges, and which are unlike the others."""

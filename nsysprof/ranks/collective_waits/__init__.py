"""Find the ranks that others wait for in collectives, measured on one clock, and what that costs the job."""

"""Define the results of checks: of a machine, a recording, nsys options, and whether environments are comparable."""

"""Hold what was checked of a machine, a recording or an environment."""

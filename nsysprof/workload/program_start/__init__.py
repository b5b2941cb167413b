"""Hold what Python runs at the start of a captured program, by its folder on PYTHONPATH. No other module imports it."""

"""Hold the modules that Python runs at the start of a captured program, by this folder on PYTHONPATH.

No other module imports them.
"""

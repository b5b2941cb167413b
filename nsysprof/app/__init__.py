"""Hold the use cases, which both the command line and the Python interface call."""

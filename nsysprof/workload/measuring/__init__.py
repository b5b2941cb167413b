"""Measure in this process: the time and memory of single calls, and the ceilings of the device."""

"""Measure in this process: time and memory of single calls, and the ceilings of the device."""

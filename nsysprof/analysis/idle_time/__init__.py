"""Find one cause for every nanosecond in which a device was idle."""

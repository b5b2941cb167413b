"""Give every nanosecond in which a device was idle one cause."""

"""Define the limits of a device: measured ceilings, datasheet peaks, and when launching is the limit."""

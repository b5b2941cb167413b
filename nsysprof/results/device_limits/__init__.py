"""Define what limits a device: its ceilings, measured and from datasheets, and when launching is the limit."""

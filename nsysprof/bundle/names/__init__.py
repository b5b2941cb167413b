"""Decide which names of a trace are public, and replace the others by tokens."""

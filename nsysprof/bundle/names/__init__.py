"""Decide which names in a trace are public, and replace all others by tokens."""

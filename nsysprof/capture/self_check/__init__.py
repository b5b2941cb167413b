"""Capture checks itself: it watches the program, compares the trace with what was seen, and records again with less."""

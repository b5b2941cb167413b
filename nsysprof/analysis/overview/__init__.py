"""Describe a trace as a whole: summary, timeline, memory, streams, and whether the recording is complete."""

"""Check a recording for lost data: watch the program, compare the trace with it, and record again with less."""

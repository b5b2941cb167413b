"""Account for the time in which a GPU works: every busy nanosecond of a device has exactly one category."""

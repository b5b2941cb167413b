"""Compose the report of each command from the sections that several reports share."""

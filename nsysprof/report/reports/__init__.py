"""Compose the report of each command from sections that several reports share."""

"""Lay out the timeline that the page of a report draws."""

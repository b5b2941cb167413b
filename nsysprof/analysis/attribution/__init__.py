"""Attribute each piece of GPU work to the range, thread and call that it belongs to."""

"""Explain why a GPU was idle, what that costs, and what would change it."""

"""Serve traces to agents, read-only and bounded."""

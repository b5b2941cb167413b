"""Open an untrusted SQLite file within limits, and read large tables directly from its pages."""

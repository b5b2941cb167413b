"""Implement `view`: its inputs, the work behind each page, the pages, and the loopback server."""

"""Provide what a Python program or notebook uses; `nsysprof` itself re-exports the names."""

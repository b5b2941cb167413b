"""Provide the Python interface for programs and notebooks; `nsysprof` itself re-exports the names."""

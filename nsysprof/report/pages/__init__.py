"""Compose what each command says and writes: one module for each topic."""

"""Compute the numbers of a trace a second time, only from the schema of nsys' exports, in SQL and plain loops.

Nothing here imports nsysprof. `scripts/oracle.py` and tests hold the program's figures against these.
"""

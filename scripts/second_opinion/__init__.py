"""What a trace says, computed a second time: from the schema of nsys' exports alone, in SQL and plain loops.

Nothing here imports nsysprof. `scripts/oracle` and tests hold the program's figures against these.
"""

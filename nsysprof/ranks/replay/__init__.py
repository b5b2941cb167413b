"""Replay the steps of all ranks of a job together, as recorded and with changes to its communication."""

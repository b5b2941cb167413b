"""Decide whether a comparison passes the rules that the user gave."""

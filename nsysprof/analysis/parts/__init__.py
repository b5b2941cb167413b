"""Limit the analysis of a trace to one part of it: the instances of one range, or one step."""

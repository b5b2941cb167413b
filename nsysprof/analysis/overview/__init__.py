"""Describe a trace as a whole: summary, health, memory and timeline."""

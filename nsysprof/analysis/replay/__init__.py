"""Turn the steps of a trace into an execution graph, and replay it unchanged or with changes."""

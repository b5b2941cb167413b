"""Answer questions about traces for AI agents: read-only, with bounded answers."""

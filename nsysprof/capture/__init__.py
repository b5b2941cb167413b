"""From a plan to a capture folder: plan (pure) -> run (processes) -> collect (checks) -> manifest (on disk)."""

"""Turn a plan into a capture folder: plan (pure), run (processes), collect (checks), manifest (on disk)."""

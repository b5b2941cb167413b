"""Turn a plan into a capture folder: plan what to do, run processes, collect and check results, write the manifest."""

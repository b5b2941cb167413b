"""Run attention in the measured processes. Nothing else of nsysprof imports torch, except api/policy.py.

`supervise` keeps one `worker` alive over the grid and replaces it when it dies. `worker` measures case by case.
"""

"""Run inside the measured processes: call attention, time it, and record.

Only this folder and api/policy.py import torch.

`supervise` keeps one `worker` running over the grid and replaces it when it dies. `worker` measures case by case.
"""

"""What runs in the measured processes, and only there: nothing else of nsysprof imports torch.

`supervise` keeps one `worker` alive over the grid and replaces it when it dies; `worker` measures case by case.
"""

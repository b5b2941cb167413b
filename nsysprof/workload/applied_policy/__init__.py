"""Apply a policy inside the user's own program: run its backend for each call of torch's attention."""

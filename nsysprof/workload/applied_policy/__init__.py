"""Run the backend that a policy names for each call of torch's attention, inside the user's own program."""

"""Define the results about a user's program: its runs, its attention, recordings, and what a change gains."""

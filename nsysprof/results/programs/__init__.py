"""Define what measuring a program of the user says: its runs, its attention, and what a change of it gains."""

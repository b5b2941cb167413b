"""Find what could be changed in a program, and estimate by replays how much time each change would save."""

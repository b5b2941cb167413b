"""Hold a program under nsys without recording, and record parts of it while it runs."""

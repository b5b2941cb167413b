"""Follow what a recorded program does: its imports, its steps, its modules. The program imports this by its path."""

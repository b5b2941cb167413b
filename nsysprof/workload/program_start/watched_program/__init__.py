"""Follow what a program does that is recorded: its imports, its steps, its modules. The program imports this by its path."""

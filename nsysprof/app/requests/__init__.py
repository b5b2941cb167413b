"""Define what each command is asked, once for the command line and for Python."""

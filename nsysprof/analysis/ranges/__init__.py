"""Make the tables of ranges: what each range launched, caused, moved and used, and when it ran."""

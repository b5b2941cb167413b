"""Make the tables of ranges: what each range launched, caused and moved, and when."""

"""The compiled part of nsysprof: the loops of loops.c, and what loads them."""

"""Search a finished bundle for private content: every byte is compared with every text of the original."""

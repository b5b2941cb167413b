"""What `view` serves: its inputs, the work behind each page, the pages, and the server on the loopback address."""

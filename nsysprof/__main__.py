"""`python -m nsysprof`."""

from nsysprof.cli import main

main()

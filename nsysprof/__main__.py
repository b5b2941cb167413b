"""Run the command line: `python -m nsysprof`, and the entry point of the command `nsysprof`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Ctrl-C while it is being loaded ends it in the same way as later."""
    try:
        from nsysprof.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("nsysprof: Interrupted.\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()

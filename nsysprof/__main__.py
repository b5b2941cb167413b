"""Run the command line: `python -m nsysprof`, and the entry point of the command `nsysprof`."""

from __future__ import annotations

import gc
import sys

# Loading modules makes hundreds of thousands of objects that stay. Looking for cycles among them as often as Python
# usually does takes a tenth of the time of a small trace.
_OBJECTS_BEFORE_COLLECTION = (20_000, 50, 100)


def main() -> None:
    """Run the command line. Ctrl-C while it is being loaded ends it in the same way as later."""
    gc.set_threshold(*_OBJECTS_BEFORE_COLLECTION)
    try:
        from nsysprof.cli import main as run
    except KeyboardInterrupt:
        sys.stderr.write("nsysprof: Interrupted.\n")
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()

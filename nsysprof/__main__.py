"""Run the command line: `python -m nsysprof`, and the entry point of the command `nsysprof`."""

from __future__ import annotations

import gc
import sys

# Loading modules and analysing a trace make two hundred thousand objects that stay. Python need not look for cycles
# among them; that would take up to a tenth of the time. So many objects that are garbage take some 50 MB.
_OBJECTS_BEFORE_COLLECTION = (400_000, 10, 100)


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

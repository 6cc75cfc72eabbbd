"""``trellis`` and ``python -m trellis``: the command line, and what a stop means while it is still being imported."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line; always ends in `SystemExit`."""
    try:
        from trellis.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("trellis: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()

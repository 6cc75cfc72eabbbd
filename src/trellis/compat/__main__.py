"""Run a script that gets modules of Trellis when it imports the packages they mirror.

    python -m trellis.compat [--as seqeval,torchcrf] script.py [arguments]
    python -m trellis.compat [--as pycrfsuite] -m module [arguments]

Without --as, all packages that have a mirror and can be loaded here are taken.
"""

from __future__ import annotations

import os
import runpy
import sys
from importlib.util import find_spec

from trellis.compat import PACKAGES, install
from trellis.errors import TrellisError

_REQUIRED = {"torchcrf": "torch"}


def main(arguments: list[str]) -> None:
    """Install the aliases, and run what the arguments name."""
    packages = [package for package in PACKAGES if find_spec(_REQUIRED.get(package, "numpy")) is not None]
    if arguments and arguments[0].startswith("--as="):
        arguments[:1] = arguments[0].split("=", 1)
    if arguments[:1] == ["--as"] and len(arguments) > 1:
        packages, arguments = [name.strip() for name in arguments[1].split(",")], arguments[2:]
    module = arguments[:1] == ["-m"]
    arguments = arguments[module:]
    if not arguments or arguments[0].startswith("-"):
        sys.exit(__doc__)
    try:
        install(*packages)
    except TrellisError as error:
        sys.exit(f"error: {error}")
    sys.argv = arguments
    if module:
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])

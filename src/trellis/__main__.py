"""``python -m trellis``, for when the ``trellis`` script is not on the path."""

from trellis.cli import main

if __name__ == "__main__":
    main()

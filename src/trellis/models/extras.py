"""What needs a library that the base package does not bring says so in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trellis.errors import ModelError


@contextmanager
def neural_extra(what: str) -> Iterator[None]:
    """Around imports: if a library is missing, the error says what needs it and how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "trellis":
            raise
        raise ModelError(f"{what} needs {error.name}: pip install 'trellis-crf[neural]'") from None

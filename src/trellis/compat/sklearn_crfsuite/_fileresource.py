"""The file of a model, which goes into pickles with what is in it."""

from __future__ import annotations

import os
import tempfile
import weakref
from contextlib import suppress
from typing import Any

_CONTENT = "__FILE_RESOURCE_DATA__"


class FileResource:
    """A file that was named, or a temporary file that is removed with this object."""

    def __init__(
        self, filename: str | None = None, keep_tempfiles: bool = False, suffix: str = "", prefix: str = ""
    ) -> None:
        self.name, self.auto, self.keep_tempfiles = filename, filename is None, keep_tempfiles
        self.suffix, self.prefix = suffix, prefix

    def ensure_name(self) -> str:
        """The name; makes a temporary file if there is none."""
        if self.name is None:
            number, self.name = tempfile.mkstemp(self.suffix, self.prefix)
            os.close(number)
            if not self.keep_tempfiles:
                weakref.finalize(self, _remove, self.name)  # at the end of Python, too
        return self.name

    def cleanup(self) -> None:
        if self.auto and not self.keep_tempfiles and self.name is not None:
            _remove(self.name)
            self.name = None

    def refresh(self) -> str:
        """The name of a new temporary file, or of the file that was named."""
        self.cleanup()
        return self.ensure_name()

    def __getstate__(self) -> dict[str, Any]:
        """The content of a temporary file, the name of another."""
        state = {name: value for name, value in self.__dict__.items() if name != "fd"}
        if self.auto and self.name is not None:
            with suppress(OSError), open(self.name, "rb") as file:
                state[_CONTENT] = file.read()
            state["name"] = None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A state of this class, or of the original."""
        content = state.pop(_CONTENT, None)
        self.__dict__.update(state)
        if content is not None:
            with open(self.ensure_name(), "wb") as file:
                file.write(content)


def _remove(name: str) -> None:
    with suppress(OSError):
        os.unlink(name)

"""The console that commands write to."""

from __future__ import annotations

from rich.console import Console


class Output(Console):
    """Rich's console, except that a reader who has seen enough, as ``head`` has, is not an error."""

    def on_broken_pipe(self) -> None:
        """Leave it to the one place where all commands end."""
        raise BrokenPipeError

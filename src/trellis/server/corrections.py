"""What people said about sentences, kept as JSON Lines: on the disk before they are told so.

Each line is all that is known about one sentence; a later line about the same tokens takes its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trellis.errors import ConfigError, DataError
from trellis.files import AppendedLines
from trellis.models.data import Label
from trellis.server.answers import dumps
from trellis.untrusted import Fields, JSONSyntaxError, parse_json

Kept = tuple[tuple[str, ...], list[Label]]
"""Tokens, and what is known of the label of each."""


class Corrections:
    """The corrections in a file; one process writes it."""

    def __init__(self, path: str | Path) -> None:
        self._lines = AppendedLines(path, ConfigError)
        self._latest: dict[tuple[str, ...], list[Label]] = {}
        self.texts: set[str] = set()
        """The texts that were corrected."""
        for number, line in enumerate(self._lines.lines(), start=1):
            self._take(_record(line, f"{path}:{number}"))

    def __len__(self) -> int:
        """Sentences about which something is known."""
        return len(self.sentences())

    def add(self, text: str, tokens: Sequence[str], labels: Sequence[Label]) -> None:
        """Keep what is known about a sentence; it waits for the disk."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        record = {"text": text, "tokens": list(tokens), "labels": list(labels), "time": now}
        self._lines.append(dumps(record))
        self._take(record)

    def sentences(self) -> list[Kept]:
        """What is known: of each sentence the latest word."""
        return [
            (tokens, labels) for tokens, labels in self._latest.items() if any(label is not None for label in labels)
        ]

    def close(self) -> None:
        """Let others write."""
        self._lines.close()

    def _take(self, record: dict[str, Any]) -> None:
        self._latest[tuple(record["tokens"])] = list(record["labels"])
        self.texts.add(record["text"])


def _record(line: bytes, where: str) -> dict[str, Any]:
    """A line of the file, which somebody may have edited."""
    try:
        fields = Fields(parse_json(line), where, DataError)
    except JSONSyntaxError as error:
        raise DataError(f"{where}: expected JSON: {error}") from None
    tokens, labels = fields.texts("tokens"), fields.items("labels", str, list, type(None))
    if len(tokens) != len(labels):
        raise DataError(f"{where}: {len(labels)} labels for {len(tokens)} tokens: expected as many")
    return {"text": fields.text("text"), "tokens": tokens, "labels": labels}

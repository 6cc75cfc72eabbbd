"""What people said about sentences, kept as JSON Lines: on the disk before they are told so.

Each line is all that is known about one sentence in the labels of one model; a later line about the same tokens and
model takes its place.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec.json import encode

from trellis.errors import ConfigError, DataError, warn
from trellis.files import AppendedLines
from trellis.models.data import Label
from trellis.untrusted import Fields, JSONSyntaxError, parse_json

CorrectedSentence = tuple[tuple[str, ...], list[Label]]
"""Tokens, and what is known of the label of each."""
_NAMED = 10  # broken lines that a warning names


class Corrections:
    """The corrections in a file; one process writes it, from any of its threads."""

    def __init__(self, path: str | Path) -> None:
        self._lines = AppendedLines(path, ConfigError)
        self._writing, self._reading = threading.Lock(), threading.Lock()  # readers do not wait for the disk
        self._labels: dict[str, dict[tuple[str, ...], list[Label]]] = {}  # by model and tokens, where any is known
        self._texts: set[str] = set()
        try:
            self._open(Path(path))
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """Sentences about which something is known."""
        return sum(map(len, self._labels.values()))

    def has_text(self, text: str) -> bool:
        """Whether a text was ever corrected, even if that was taken back."""
        return text in self._texts

    def add(self, model: str, text: str, tokens: Sequence[str], labels: Sequence[Label]) -> None:
        """Keep what is known about a sentence; it waits for the disk."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        fields = {"text": text, "tokens": list(tokens), "labels": list(labels), "model": model, "time": now}
        line = encode(fields)
        with self._writing:  # lines and memory change in the same order
            self._lines.append(line)
            with self._reading:
                self._remember(model, text, tuple(tokens), list(labels))

    def models(self) -> dict[str, int]:
        """Corrected sentences by the name of the model."""
        with self._reading:
            return {model: len(sentences) for model, sentences in self._labels.items()}

    def sentences(self, model: str) -> list[CorrectedSentence]:
        """What is known of each sentence in the labels of a model, by its latest correction."""
        with self._reading:
            return list(self._labels.get(model, {}).items())

    def close(self) -> None:
        """Let others write."""
        self._lines.close()

    def _open(self, path: Path) -> None:
        """Read all lines; one that is not JSON, which a full disk may have left, is set aside with a warning."""
        whole_lines: list[bytes] = []
        broken: dict[int, bytes] = {}
        problem = ""
        lines, ended = self._lines.lines()
        for number, line in enumerate(lines, start=1):
            try:
                self._read(line, f"{path}:{number}")
                whole_lines.append(line)
            except JSONSyntaxError as error:
                broken[number] = line
                problem = problem or f"{path}:{number}: expected JSON: {error}"
        killed_at_first = not ended and len(lines) == 1 and lines[0].startswith(b'{"text":')
        if broken and not whole_lines and not killed_at_first:
            raise DataError(f"{problem}; no line of the file is a correction")
        if broken or not ended:
            aside = self._lines.set_aside(whole_lines, list(broken.values()))
        if broken:
            places = ", ".join(f"{path}:{number}" for number in list(broken)[:_NAMED])
            more = f" and {len(broken) - _NAMED:,} more" if len(broken) > _NAMED else ""
            warn(f"{places}{more}: expected JSON, found a part of it, which is now in {aside}")

    def _read(self, line: bytes, where: str) -> None:
        """Remember a line of the file, which somebody may have edited."""
        fields = Fields(parse_json(line), where, DataError)
        tokens, labels = fields.texts("tokens"), fields.items("labels", str, list, type(None))
        if len(tokens) != len(labels):
            raise DataError(f"{where}: {len(labels)} labels for {len(tokens)} tokens: expected as many")
        self._remember(fields.text("model"), fields.text("text"), tuple(tokens), list(labels))

    def _remember(self, model: str, text: str, tokens: tuple[str, ...], labels: list[Label]) -> None:
        self._texts.add(text)
        sentences = self._labels.setdefault(model, {})
        if any(label is not None for label in labels):
            sentences[tokens] = labels
        else:
            sentences.pop(tokens, None)

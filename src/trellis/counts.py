"""Numbers with what they count, for people."""

from __future__ import annotations


def number_of(count: int, noun: str, plural: str | None = None) -> str:
    """A number and what it counts: 1 sentence, 2,000 sentences; `plural` is for nouns that do not take an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"

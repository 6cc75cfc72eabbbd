"""The record of a training, training.json, as anybody may have changed it: what commands rely on is checked here."""

from __future__ import annotations

from typing import Any

from trellis.untrusted import Fields

_TEXTS = ("trellis", "command", "model", "task", "scheme", "tokenizer", "started", "reason")
_FILE = {"path": (str,), "format": (str,), "sentences": (int,), "tokens": (int,)}


def checked_record(values: Any, where: str) -> dict[str, Any]:
    """The record, once each field that it has is of its type; fields of later versions are left alone."""
    record = Fields(values, where)
    for name in record.values.keys() & set(_TEXTS):
        record.value(name, str, type(None))
    for name in record.values.keys() & {"seconds", "iterations"}:
        record.value(name, int, float, type(None))
    if "labels" in record:
        record.texts("labels")
    if "reading" in record:
        record.table("reading")
    for file in _tables(record, "data"):
        for name, kinds in _FILE.items():
            file.value(name, *kinds)
    for figures in _tables(record, "figures"):
        for name in figures.values:
            figures.value(name, int, float)
    return record.values


def _tables(record: Fields, name: str) -> list[Fields]:
    """The objects in an object of the record, if it has it."""
    if name not in record:
        return []
    holder = record.table(name)
    return [holder.table(role) for role in holder.values]

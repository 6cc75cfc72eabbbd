"""Answers as columns of a table: Python lists for pandas frames and dicts, arrays for Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trellis.corpus.tables import arrow
from trellis.distributed.answering import Answered, Block, row_slices
from trellis.distributed.arrow_arrays import chosen, lists, numbers, strings
from trellis.errors import DataError

OUTPUTS = ("tags", "spans", "probabilities")
ERROR = "error"
PYTHON_OPTION = "{0}="
"""How a setting is called where only Python is spoken."""


class NameTaken(DataError):  # noqa: N818 - what is the case
    """The input has a column or field of the name of an answer: no record can be tagged with these settings."""


def column_names(outputs: tuple[str, ...], *, with_tokens: bool) -> list[str]:
    """The columns that are added, without their prefix: tags are of no use without the tokens that they belong to."""
    names = ["tokens"] if with_tokens and {"tags", "probabilities"} & set(outputs) else []
    return names + [name for name in OUTPUTS if name in outputs]


def as_lists(answered: Answered, name: str, *, scored: bool) -> list[Any]:
    """One value per row: a list, and None where the row is refused."""
    values = iter([value for block in answered.blocks for value in _LISTS[name](block, scored)])
    return [None if row in answered.refused else next(values) for row in range(answered.count)]


def _tokens(block: Block, scored: bool) -> list[Any]:
    return [block.tokens[own] for own in row_slices(block.lengths)]


def _tags(block: Block, scored: bool) -> list[Any]:
    names = [block.labels[i] for i in block.ids.tolist()]
    return [names[own] for own in row_slices(block.lengths)]


def _probabilities(block: Block, scored: bool) -> list[Any]:
    values = block.probabilities.tolist()
    return [values[own] for own in row_slices(block.lengths)]


def _spans(block: Block, scored: bool) -> list[Any]:
    columns = {"start": block.starts, "end": block.ends, "label": block.span_labels, "text": block.span_texts}
    if scored:
        columns["probability"] = block.span_probabilities.tolist()
    records = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [records[own] for own in row_slices(block.span_counts)]


_LISTS: dict[str, Callable[[Block, bool], list[Any]]] = {
    "tokens": _tokens,
    "tags": _tags,
    "probabilities": _probabilities,
    "spans": _spans,
}


def arrow_type(name: str, *, scored: bool) -> Any:
    """The type of a column."""
    pa = arrow()
    if name in ("tokens", "tags"):
        return pa.list_(pa.string())
    if name == "probabilities":
        return pa.list_(pa.float64())
    span = [("start", pa.int32()), ("end", pa.int32()), ("label", pa.string()), ("text", pa.string())]
    return pa.list_(pa.struct([*span, ("probability", pa.float64())] if scored else span))


def as_arrow(answered: Answered, name: str, *, scored: bool) -> Any:
    """A chunked array with one value per row, null where the row is refused."""
    pa, kind = arrow(), arrow_type(name, scored=scored)
    column = pa.chunked_array([_array(block, name, kind, scored) for block in answered.blocks], type=kind)
    if not answered.refused:
        return column
    good = np.array([row not in answered.refused for row in range(answered.count)])
    if not good.any():
        return pa.chunked_array([pa.nulls(answered.count, kind)])
    return column.take(pa.array(np.cumsum(good) - 1, mask=~good))


def _array(block: Block, name: str, kind: Any, scored: bool) -> Any:
    if name == "spans":
        parts = [numbers(np.array(own, np.int32)) for own in (block.starts, block.ends)]
        parts += [strings(block.span_labels), strings(block.span_texts)]
        parts += [numbers(block.span_probabilities)] if scored else []
        values = arrow().StructArray.from_arrays(parts, fields=list(kind.value_type))
        return lists(values, block.span_counts, kind)
    if name == "tags":
        values = chosen(block.labels, block.ids)
    else:
        values = strings(block.tokens) if name == "tokens" else numbers(block.probabilities)
    return lists(values, block.lengths, kind)


def errors_of(answered: Answered) -> list[str | None]:
    """Why a row is refused, None for the others."""
    return [answered.refused.get(row) for row in range(answered.count)]

"""Arrow arrays from strings and numbers, made of buffers.

`pyarrow.array` asks whether it was given something of pandas, and imports pandas for that if it is installed, as it is
with Ray: a third of a second in every worker, for nothing. It also takes twice as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from trellis import _native
from trellis.arrays import AnyArray, IntArray
from trellis.corpus.tables import arrow
from trellis.errors import DataError
from trellis.ragged import offsets_of


def numbers(values: AnyArray) -> Any:
    """An array of the type that the values have; NumPy's memory is shared."""
    own = np.ascontiguousarray(values)
    return _of_buffers(arrow().from_numpy_dtype(own.dtype), len(own), None, own)


def strings(texts: Sequence[str | None]) -> Any:
    """An array of strings, null where there is None."""
    with _packing():
        data, offsets, are_all_there = _native.pack_texts(texts)
    valid = None if are_all_there else np.packbits([text is not None for text in texts], bitorder="little")
    return _of_buffers(arrow().string(), len(texts), valid, offsets, data)


def chosen(choices: Sequence[str], ids: IntArray) -> Any:
    """An array of strings, those of the choices that the ids say."""
    with _packing():
        data, offsets, _ = _native.pack_names(choices, ids)
    return _of_buffers(arrow().string(), len(ids), None, offsets, data)


@contextmanager
def _packing() -> Iterator[None]:
    try:
        yield
    except ValueError as error:  # more bytes than an array has, or no UTF-8
        raise DataError(str(error)) from None


def _of_buffers(kind: Any, count: int, *buffers: AnyArray | None) -> Any:
    pa = arrow()
    return pa.Array.from_buffers(kind, count, [None if own is None else pa.py_buffer(own) for own in buffers])


def lists(values: Any, lengths: IntArray, kind: Any) -> Any:
    """An array of lists: the values one after another, and how many each row has."""
    return arrow().ListArray.from_arrays(numbers(offsets_of(lengths).astype(np.int32)), values, type=kind)

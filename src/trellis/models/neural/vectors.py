"""The vectors of a file for the words that a tagger knows, and for others that it may meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trellis.arrays import Float32Array
from trellis.models.neural.config import WordSettings
from trellis.models.neural.vocabulary import Vocabulary
from trellis.symbols import FIRST, Symbols
from trellis.vectors import Coverage, read_vectors


def add_vectors(
    vocabulary: Vocabulary, settings: WordSettings, seen: Sequence[str]
) -> tuple[Vocabulary, Float32Array | None, Coverage | None]:
    """The vocabulary with the words that have vectors, their table (rows of zeros for padding and unknown), coverage.

    The vectors of all words seen in training are kept, whether frequent enough for a learned one or not, and the first
    `extra` of the file.
    """
    if settings.vectors is None:
        return vocabulary, None, None
    found = read_vectors(settings.vectors, seen, extra=settings.extra)
    names = sorted(found.rows, key=lambda word: found.rows[word])
    table = np.zeros((FIRST + len(names), found.size), dtype=np.float32)
    table[FIRST:] = found.array[[found.rows[name] for name in names]]
    return replace(vocabulary, vectors=Symbols(tuple(names))), table, found.coverage

"""A lexicon as arrays: in a file of its own, or in that of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from trellis import store
from trellis.arrays import Arrays
from trellis.errors import DataError, StoreError
from trellis.lexicon.entries import FEATURE_CODE, MOST, MUST_CODE, Columns, Lexicon, check_surface
from trellis.lexicon.matching import Folding
from trellis.store import Stored, pack_strings

KIND = "lexicon"
_PREFIX = "lexicon."


def to_stored(lexicon: Lexicon) -> tuple[dict[str, Any], Arrays]:
    """Manifest and arrays; the names of the arrays begin with ``lexicon.``."""
    c, folding = lexicon.columns, lexicon.folding
    arrays: Arrays = {
        **pack_strings(f"{_PREFIX}surfaces", list(c.surfaces)),
        f"{_PREFIX}labels": c.labels.astype(np.int32),
        f"{_PREFIX}strengths": c.codes.astype(np.uint8),
        f"{_PREFIX}bonus": c.bonus,
    }
    how = {"fold_case": folding.case, "fold_width": folding.width, "boundaries": lexicon.boundaries}
    return {"labels": list(c.names), **how}, arrays


def from_stored(stored: Stored, field: str = KIND) -> Lexicon:
    """The inverse of `to_stored`, whose manifest is this field of the file's, for a file that may contain anything."""
    fields = stored.manifest.table(field)
    surfaces, names = stored.strings(f"{_PREFIX}surfaces"), fields.texts("labels")
    size = (len(surfaces),)
    for number, surface in enumerate(surfaces):
        if not surface or check_surface(surface):
            raise StoreError(f"{stored.where}: entry {number} of the lexicon has no surface")
    columns = Columns(
        surfaces,
        stored.array(f"{_PREFIX}labels", np.int32, size, -1, len(names) - 1).astype(np.int64),
        names,
        stored.array(f"{_PREFIX}strengths", np.uint8, size, FEATURE_CODE, MUST_CODE).astype(np.int64),
        stored.array(f"{_PREFIX}bonus", np.float64, size, -MOST, MOST),
    )
    folding = Folding(fields.value("fold_case", bool), fields.value("fold_width", bool))
    try:
        return Lexicon.of_columns(columns, folding, fields.text("boundaries"))  # type: ignore[arg-type]
    except DataError as error:
        raise StoreError(f"{stored.where}: {error}") from None


def save(lexicon: Lexicon, path: str | Path) -> None:
    """Write a file of its own."""
    manifest, arrays = to_stored(lexicon)
    store.save(path, KIND, {KIND: manifest}, arrays)


def load(path: str | Path) -> Lexicon:
    """Open a file that `save` wrote."""
    return from_stored(store.load(path, KIND))

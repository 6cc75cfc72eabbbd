"""A hidden Markov model in a file: arrays unchanged, symbols and the keys of word forms in the manifest."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.arrays import Arrays, FloatArray, IntArray
from trellis.errors import ModelError, StoreError
from trellis.models.hmm.estimation import Forms
from trellis.models.hmm.expectation import PARTS
from trellis.models.hmm.histories import BEGIN, Histories, Triples
from trellis.models.hmm.observations import Symbol
from trellis.models.hmm.probabilities import Probabilities
from trellis.models.hmm.training import LearnedHMM
from trellis.models.probability import check_distribution
from trellis.models.states import MOST_PAIRS
from trellis.store import Stored

_MOST = 1e100  # of a count: sums of such numbers are finite


def to_stored(model: LearnedHMM) -> tuple[dict[str, Any], Arrays]:
    """Manifest entries and arrays."""
    symbols = [_plain(symbol) for symbol in model.symbols]
    arrays: Arrays = {part: getattr(model.parameters, part) for part in PARTS}
    if model.labelled is not None:
        arrays |= {f"labelled_{part}": getattr(model.labelled, part) for part in PARTS}
    if model.forms is not None:
        arrays |= {"form_counts": model.forms.counts, "form_prior": model.forms.prior}
    if model.histories is not None:
        arrays |= {"pairs": model.histories.pairs, "pair_rows": model.histories.rows}
    if model.triples is not None:
        arrays |= {"triples": model.triples.labels, "triple_counts": model.triples.counts}
    forms = None if model.forms is None else list(model.forms.keys)
    return {"symbols": symbols, "forms": forms}, arrays


def from_stored(stored: Stored, L: int) -> LearnedHMM:
    """The inverse of `to_stored` for L labels; arrays must be there, be probabilities or counts, and fit each other."""
    symbols, keys = _symbols(stored), _form_keys(stored)
    V = len(symbols)
    parameters = _probabilities(stored, L, V + (keys is not None))
    labelled = _counted(stored, L, V) if "labelled_start" in stored else None
    forms = None
    if keys is not None:
        forms = Forms(keys, _counts(stored, "form_counts", (len(keys), L)), _counts(stored, "form_prior", (L,)))
    return LearnedHMM(symbols, parameters, labelled, forms, *_order_2(stored, L))


def _plain(symbol: Symbol) -> str | int:
    if isinstance(symbol, str):
        return symbol
    if isinstance(symbol, int | np.integer):
        return int(symbol)
    raise ModelError(f"a model is saved only if its symbols are strings or integers, got {symbol!r:.40}")


def _symbols(stored: Stored) -> dict[Symbol, int]:
    listed = stored.manifest.items("symbols", str, int)
    symbols = {symbol: i for i, symbol in enumerate(listed)}
    if len(symbols) < len(listed):
        raise StoreError(f"{stored.where}: {len(listed) - len(symbols)} symbols occur twice")
    return symbols


def _form_keys(stored: Stored) -> tuple[str, ...] | None:
    absent = stored.manifest.value("forms", list, type(None)) is None
    return None if absent else stored.manifest.texts("forms")


def _probabilities(stored: Stored, L: int, V: int) -> Probabilities:
    """Start and transitions by row, emissions (V, L) by state; a model of no symbols emits nothing."""
    emissions = stored.array("emissions", np.float64, (V, L), 0)
    if V:
        _check_sums(stored, "emissions", emissions.T)
    return Probabilities(_rows(stored, "start", (L,)), _rows(stored, "transitions", (L, L)), emissions)


def _rows(stored: Stored, name: str, shape: tuple[int, ...]) -> FloatArray:
    array = stored.array(name, np.float64, shape, 0)
    _check_sums(stored, name, array)
    return array


def _check_sums(stored: Stored, name: str, rows: FloatArray) -> None:
    try:
        check_distribution(name, rows, rows.shape)
    except ModelError as error:
        raise StoreError(f"{stored.where}: {error}") from None


def _counted(stored: Stored, L: int, V: int) -> Probabilities:
    shapes = ((L,), (L, L), (V, L))
    return Probabilities(
        *(_counts(stored, f"labelled_{part}", shape) for part, shape in zip(PARTS, shapes, strict=True))
    )


def _counts(stored: Stored, name: str, shape: tuple[int | None, ...]) -> FloatArray:
    return stored.array(name, np.float64, shape, 0, _MOST)


def _order_2(stored: Stored, L: int) -> tuple[Histories | None, Triples | None]:
    if "pairs" not in stored:
        return None, None
    pairs = _labels(stored, "pairs", 2, L)
    if len(pairs) > MOST_PAIRS or len(np.unique(pairs, axis=0)) < len(pairs):
        raise stored.refused("pairs", f"must have each pair once, and at most {MOST_PAIRS} of them")
    rows = _rows(stored, "pair_rows", (len(pairs), L)) if len(pairs) else np.empty((0, L))
    triples = _labels(stored, "triples", 3, L)
    return Histories(pairs, rows), Triples(triples, _counts(stored, "triple_counts", (len(triples),)))


def _labels(stored: Stored, name: str, width: int, L: int) -> IntArray:
    """Labels that followed each other, ``(any, width)``, of which only the first may be `BEGIN`."""
    array = stored.array(name, np.int64, (None, width), BEGIN, L - 1)
    if (array[:, 1:] == BEGIN).any():
        raise stored.refused(name, f"must have {BEGIN} in its first column only")
    return array

"""A hidden Markov model in a file: arrays as they are, symbols and the keys of word forms in the manifest."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.arrays import AnyArray, Arrays
from trellis.errors import ModelError, StoreError
from trellis.models.hmm_data import Symbol
from trellis.models.hmm_expectation import PARTS
from trellis.models.hmm_forms import Forms
from trellis.models.hmm_histories import Histories, Triples
from trellis.models.hmm_learning import Learnt
from trellis.models.hmm_parameters import Parameters


def to_stored(model: Learnt) -> tuple[dict[str, Any], Arrays]:
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


def from_stored(manifest: dict[str, Any], arrays: Arrays) -> Learnt:
    """The inverse of `to_stored`; arrays must be there and fit each other."""
    L, V, keys = len(manifest["labels"]), len(manifest["symbols"]), manifest["forms"]
    rows = V + (keys is not None)
    parameters = _parameters(arrays, "", L, rows)
    labelled = _parameters(arrays, "labelled_", L, V) if "labelled_start" in arrays else None
    forms = None
    if keys is not None:
        counts = _array(arrays, "form_counts", (len(keys), L))
        forms = Forms(tuple(keys), counts, _array(arrays, "form_prior", (L,)))
    symbols = {symbol: i for i, symbol in enumerate(manifest["symbols"])}
    return Learnt(symbols, parameters, labelled, forms, *_order_2(arrays, L))


def _order_2(arrays: Arrays, L: int) -> tuple[Histories | None, Triples | None]:
    if "pairs" not in arrays:
        return None, None
    P, K = (len(arrays[name]) if name in arrays else 0 for name in ("pairs", "triples"))
    histories = Histories(_array(arrays, "pairs", (P, 2)), _array(arrays, "pair_rows", (P, L)))
    return histories, Triples(_array(arrays, "triples", (K, 3)), _array(arrays, "triple_counts", (K,)))


def _plain(symbol: Symbol) -> str | int:
    if isinstance(symbol, str):
        return symbol
    if isinstance(symbol, int | np.integer):
        return int(symbol)
    raise ModelError(f"a model is saved only if its symbols are strings or integers, got {symbol!r:.40}")


def _parameters(arrays: Arrays, prefix: str, L: int, V: int) -> Parameters:
    shapes = ((L,), (L, L), (V, L))
    return Parameters(*(_array(arrays, f"{prefix}{part}", shape) for part, shape in zip(PARTS, shapes, strict=True)))


def _array(arrays: Arrays, name: str, shape: tuple[int, ...]) -> AnyArray:
    if name not in arrays:
        raise StoreError(f"the saved HMM lacks the array {name!r}")
    if arrays[name].shape != shape:
        raise StoreError(f"the saved HMM's {name} must be {shape}, got {arrays[name].shape}")
    return arrays[name]

"""A feature CRF as arrays: its attributes, the weights of pairs, transitions and steps, and its templates' text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.arrays import Arrays
from trellis.errors import StoreError, TemplateError
from trellis.features import AttributeIndex, Clusters, Extractor, GivenExtractor, TemplateExtractor, Templates
from trellis.models.crf.weights import AttributeWeights, CRFWeights, HistoryWeights
from trellis.models.states import MOST_PAIRS
from trellis.store import Stored, narrowed
from trellis.tags import StateMap
from trellis.untrusted import Fields


def to_stored(p: CRFWeights, extractor: Extractor, states: StateMap) -> tuple[dict[str, Any], Arrays]:
    """Manifest and arrays."""
    templates = None
    if isinstance(extractor, TemplateExtractor):
        templates = {"name": extractor.templates.name, "text": extractor.templates.text}
    arrays: Arrays = {
        **_arrays(p),
        **({} if p.edges is None else _arrays(p.edges, "edge.")),
        **({} if p.histories is None else _history_arrays(p.histories)),
        "transitions": p.transitions,
        "weighted": p.weighted.view(np.uint8),
        "start": p.start,
        "end": p.end,
    }
    if isinstance(extractor, TemplateExtractor) and extractor.clusters is not None:
        arrays |= extractor.clusters.arrays()
    return {"templates": templates, "learn_scheme": states.scheme.value}, arrays


def from_stored(stored: Stored, L: int, lexicon: Sequence[str] = ()) -> tuple[CRFWeights, Extractor]:
    """The inverse of `to_stored`, for L states and these columns of a lexicon."""
    templates = stored.manifest.optional_table("templates")
    extractor: Extractor = GivenExtractor()
    if templates is not None:
        try:
            extractor = TemplateExtractor(_stored_templates(templates), Clusters.from_stored(stored), lexicon)
        except TemplateError as error:
            raise StoreError(f"{stored.where}: {error}") from None
    steps = isinstance(extractor, TemplateExtractor) and bool(extractor.templates.edges)
    return _stored_parameters(stored, L, steps=steps), extractor


def _arrays(weights: AttributeWeights, prefix: str = "") -> Arrays:
    single = weights.weights.astype(np.float32)
    return {
        **weights.index.arrays(prefix),
        f"{prefix}pair_counts": narrowed(np.diff(weights.ends, prepend=0)),
        f"{prefix}pair_labels": narrowed(weights.labels),
        f"{prefix}pair_weights": single if np.array_equal(single, weights.weights) else weights.weights,
    }


def _history_arrays(histories: HistoryWeights) -> Arrays:
    return {
        "history.pairs": histories.pairs,
        "history.rows": histories.rows,
        "history.weighted": histories.weighted.view(np.uint8),
    }


def _stored_histories(stored: Stored, L: int) -> HistoryWeights:
    pairs = stored.array("history.pairs", np.int64, (None, 2), 0, L - 1)
    if len(pairs) > MOST_PAIRS or len(np.unique(pairs, axis=0)) < len(pairs):
        raise stored.refused("history.pairs", f"must have each pair once, and at most {MOST_PAIRS} of them")
    rows = stored.array("history.rows", np.float64, (len(pairs), L))
    return HistoryWeights(pairs, rows, stored.array("history.weighted", np.uint8, rows.shape, 0, 1).astype(np.bool_))


def _stored_weights(stored: Stored, width: int, prefix: str = "") -> AttributeWeights:
    """The inverse of `_arrays`, each of which native code indexes by."""
    index = AttributeIndex.from_stored(stored, prefix)
    labels = stored.array(f"{prefix}pair_labels", (np.uint8, np.uint16), (None,), 0, width - 1)
    ends = stored.lengths(f"{prefix}pair_counts", len(labels), len(index))
    weights = stored.array(f"{prefix}pair_weights", (np.float64, np.float32), labels.shape)
    return AttributeWeights(
        index, ends, labels.astype(np.uint16, copy=False), weights.astype(np.float64, copy=False), width
    )


def _stored_parameters(stored: Stored, L: int, *, steps: bool) -> CRFWeights:
    """The arrays of a saved model for L states."""
    states = _stored_weights(stored, L)
    forbidden = -np.inf
    return CRFWeights(
        states.index,
        states.ends,
        states.labels,
        states.weights,
        L,
        stored.array("transitions", np.float64, (L, L), forbidden),
        stored.array("weighted", np.uint8, (L, L), 0, 1).astype(np.bool_),
        stored.array("start", np.float64, (L,), forbidden),
        stored.array("end", np.float64, (L,), forbidden),
        _stored_weights(stored, L * L, "edge.") if steps else None,
        _stored_histories(stored, L) if "history.pairs" in stored else None,
    )


def _stored_templates(fields: Fields) -> Templates:
    try:
        return Templates.parse(fields.text("text"), name=fields.text("name"))
    except TemplateError as error:
        raise StoreError(f"{fields.where}: {error}") from None

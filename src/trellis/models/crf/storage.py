"""A feature CRF as arrays: its attributes, the weights of pairs and transitions, and the text of its templates."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.arrays import Arrays
from trellis.errors import StoreError, TemplateError
from trellis.features import AttributeIndex, Clusters, Extractor, GivenExtractor, TemplateExtractor, Templates
from trellis.models.crf.objective import CRFWeights
from trellis.store import Stored
from trellis.tags import TagStates
from trellis.untrusted import Fields


def to_stored(p: CRFWeights, extractor: Extractor, states: TagStates) -> tuple[dict[str, Any], Arrays]:
    """Manifest and arrays."""
    templates = None
    if isinstance(extractor, TemplateExtractor):
        templates = {"name": extractor.templates.name, "text": extractor.templates.text}
    arrays: Arrays = {
        **p.index.arrays(),
        "pair_ends": p.ends,
        "pair_labels": p.labels,
        "pair_weights": p.weights,
        "transitions": p.transitions,
        "weighted": p.weighted.view(np.uint8),
        "start": p.start,
        "end": p.end,
    }
    if isinstance(extractor, TemplateExtractor) and extractor.clusters is not None:
        arrays |= extractor.clusters.arrays()
    return {"templates": templates, "learn_scheme": states.scheme.value}, arrays


def from_stored(stored: Stored, L: int) -> tuple[CRFWeights, Extractor]:
    """The inverse of `to_stored`, for L states."""
    templates = stored.manifest.optional_table("templates")
    extractor: Extractor = GivenExtractor()
    if templates is not None:
        extractor = TemplateExtractor(_stored_templates(templates), Clusters.from_stored(stored))
    return _stored_parameters(stored, L), extractor


def _stored_parameters(stored: Stored, L: int) -> CRFWeights:
    """The arrays of a saved model for L states, each of which native code indexes by."""
    index = AttributeIndex.from_stored(stored)
    labels = stored.array("pair_labels", np.uint16, (None,), 0, L - 1)
    forbidden = -np.inf
    return CRFWeights(
        index,
        stored.ends("pair_ends", np.int64, len(labels), len(index)),
        labels,
        stored.array("pair_weights", np.float64, (len(labels),)),
        stored.array("transitions", np.float64, (L, L), forbidden),
        stored.array("weighted", np.uint8, (L, L), 0, 1).astype(np.bool_),
        stored.array("start", np.float64, (L,), forbidden),
        stored.array("end", np.float64, (L,), forbidden),
    )


def _stored_templates(fields: Fields) -> Templates:
    try:
        return Templates.parse(fields.text("text"), name=fields.text("name"))
    except TemplateError as error:
        raise StoreError(f"{fields.where}: {error}") from None

"""What an exported file takes, as arrays: tokens or emissions of a batch, padded on the right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from trellis.arrays import AnyArray, Arrays, IntArray
from trellis.errors import ModelError
from trellis.models.base import Tagger
from trellis.ragged import pad


def feeds(tagger: Tagger[Any], sentences: Iterable[Any]) -> Arrays:
    """The inputs of the file that `to_onnx` makes of this tagger, for these sentences as one batch."""
    inputs = list(sentences)
    learned = exported_network(tagger)
    if learned is None:
        scores = tagger.posterior(inputs, lexicon=None).scores
        return {"emissions": pad(scores.emissions.astype(np.float32), scores.lengths), "mask": _mask(scores.lengths)}
    encoded = learned.vocabulary.encode(tagger._folded(inputs))
    found = {"mask": _mask(encoded.lengths)}
    for name, part in learned.plan.parts.items():
        found |= {key: pad(ids, encoded.lengths) for key, ids in _ids(name, part, encoded).items()}
    return found


def exported_network(tagger: Tagger[Any]) -> Any:
    """What a neural tagger has learned, if its network is exported whole; None if the graph starts at emissions."""
    learned = getattr(tagger, "model_", None)
    if getattr(tagger.settings_, "head", None) == "semicrf":
        raise ModelError("a tagger with head = semicrf cannot be exported: its spans are scored as a whole")
    return None if getattr(learned, "plan", None) is None else learned


def _ids(name: str, part: Any, encoded: Any) -> Arrays:
    """What a part of the encoder looks up, one row per token."""
    words, kinds = encoded.words, encoded.kinds
    if name == "words":
        both = {"word": (part.learnt, words.word), "vector": (part.vectors, words.vector)}
        return {key: ids[kinds] for key, (table, ids) in both.items() if table is not None}
    if name == "characters":
        return {"characters": words.spelt(kinds).padded()}
    if name == "pairs":
        return {"pairs": encoded.pairs}
    if name == "case":
        return {"case": words.case[kinds]}
    return {name.replace("column ", "column_"): encoded.columns[part.column]}


def _mask(lengths: IntArray) -> AnyArray:
    found: AnyArray = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
    return found

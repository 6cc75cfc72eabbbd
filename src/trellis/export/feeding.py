"""What an exported file takes, as arrays: tokens or emissions of a batch, padded on the right."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from trellis.arrays import AnyArray, Arrays, IntArray
from trellis.models.base import Tagger
from trellis.ragged import pad


def feeds(tagger: Tagger[Any], sentences: Iterable[Any]) -> Arrays:
    """The inputs of the file that `to_onnx` makes of this tagger, for these sentences as one batch."""
    inputs = list(sentences)
    network = exported_network(tagger)
    if network is None:
        scores = tagger.posterior(inputs, lexicon=None).scores
        return {"emissions": pad(scores.emissions.astype(np.float32), scores.lengths), "mask": _mask(scores.lengths)}
    encoded = network.encode(tagger.model_.vocabulary, tagger._folded(inputs))  # type: ignore[attr-defined]
    found = {"mask": _mask(encoded.lengths)}
    words, kinds = encoded.words, encoded.kinds
    for name in network.parts:
        found |= {key: pad(ids, encoded.lengths) for key, ids in _ids(name, network, encoded, words, kinds).items()}
    return found


def exported_network(tagger: Tagger[Any]) -> Any:
    """The network of a neural tagger that is exported whole; None if the graph starts at emissions."""
    model = getattr(tagger, "model_", None)
    network = getattr(model, "network", None)
    return None if network is None or network.transformer is not None else network


def _ids(name: str, network: Any, encoded: Any, words: Any, kinds: IntArray) -> Arrays:
    """What a part of the encoder looks up, one row per token."""
    if name == "words":
        part = network.encoder.parts["words"]
        both = {"word": (part.learnt, words.word), "vector": (part.vectors, words.vector)}
        return {key: ids[kinds] for key, (table, ids) in both.items() if table is not None}
    if name == "characters":
        return {"characters": words.spelt(kinds).numpy()}
    if name == "pairs":
        return {"pairs": encoded.pairs}
    if name == "case":
        return {"case": words.case[kinds]}
    column = network.encoder.parts[name].name
    return {name.replace("column ", "column_"): encoded.columns[column]}


def _mask(lengths: IntArray) -> AnyArray:
    found: AnyArray = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
    return found

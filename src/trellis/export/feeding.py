"""What an exported file takes, as arrays: tokens or emissions of a batch, padded on the right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from trellis.arrays import AnyArray, Arrays, IntArray
from trellis.errors import ModelError
from trellis.export.network import plan_around
from trellis.export.transformer import INPUTS
from trellis.models.data import tokens_of
from trellis.models.neural.inference import LearnedNetwork
from trellis.models.tagger import Tagger
from trellis.ragged import pad


def feeds(tagger: Tagger[Any], sentences: Iterable[Any]) -> Arrays:
    """The inputs of the file that `to_onnx` makes of this tagger, for these sentences as one batch."""
    inputs = list(sentences)
    learned = exported_network(tagger)
    if learned is None:
        scores = tagger.posterior(inputs, lexicon=None).scores
        return {"emissions": pad(scores.emissions.astype(np.float32), scores.lengths), "mask": _mask(scores.lengths)}
    seen = tagger._folded(inputs)
    encoded = learned.vocabulary.encode(seen)
    found = {"mask": _mask(encoded.lengths)}
    if learned.plan is None:
        found |= _windows(learned.network.transformer, seen)
    for name, part in plan_around(learned, tagger.settings_).parts.items():
        found |= {key: pad(ids, encoded.lengths) for key, ids in _ids(name, part, encoded).items()}
    return found


def exported_network(tagger: Tagger[Any]) -> LearnedNetwork | None:
    """What a neural tagger has learned: its network is exported whole. None if the graph starts at emissions."""
    learned = getattr(tagger, "model_", None)
    if getattr(tagger.settings_, "head", None) == "semicrf":
        raise ModelError("a tagger with head = semicrf cannot be exported: its spans are scored as a whole")
    return learned if isinstance(learned, LearnedNetwork) else None


def _windows(transformer: Any, inputs: Sequence[Any]) -> Arrays:
    """Subwords in windows under the names of the graph; a batch without any has one window of padding."""
    batch = transformer.batch(transformer.encode([list(tokens_of(item)) for item in inputs]))
    arrays = {INPUTS[name]: tensor.numpy() for name, tensor in batch.items() if name in INPUTS}
    if len(arrays["rows"]):
        return arrays
    fills = {"input_ids": transformer.tokenizer.pad, "attention_mask": 1, "word_index": -1}
    return {name: np.full((1, 1)[: given.ndim], fills.get(name, 0), dtype=np.int64) for name, given in arrays.items()}


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

"""A tagger as an ONNX file, and beside it a JSON file with what a program needs to call it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trellis import __version__, config
from trellis.arrays import AnyArray, Arrays, IntArray
from trellis.errors import ConfigError, ModelError
from trellis.export.decoder import OUTPUTS, Decoder
from trellis.export.graph import OPSET, Graph
from trellis.export.network import INPUTS, add_network, input_name, plan_around
from trellis.files import write_together
from trellis.models.data import tokens_of
from trellis.models.neural.inference import LearnedNetwork
from trellis.models.neural.plan import CharacterPlan, WordPlan
from trellis.models.tagger import Tagger
from trellis.ragged import pad
from trellis.text import splitter

FORMAT = 1
"""The version of the JSON file."""
LARGEST = 2**31 - 1
"""Bytes of a file in the format of ONNX."""


def to_onnx(
    tagger: Tagger[Any], path: str | Path, *, inputs: Collection[str] | None = None, outputs: Collection[str] = OUTPUTS
) -> Path:
    """Write the tagger to `path` and its description to the same name with .json, which is returned.

    The graph gives `outputs`, of labels, marginals and probability; it is the quicker the fewer they are.

    A neural tagger is exported from the ids of its tokens or subwords on; others from emissions on (see `feeds`). The
    lexicon of a tagger is not exported, and neither are transitions that depend on the place. A graph that takes others
    than these `inputs` is refused.
    """
    target = Path(path)
    if target.suffix == ".json":
        raise ModelError(f"{target} would be the description: name the file of the graph, such as model.onnx")
    sidecar = target.with_suffix(".json")
    _refuse_other_file(sidecar)
    graph = _graph(tagger, _checked(outputs))
    beyond = [given.name for given in graph.inputs if inputs is not None and given.name not in inputs]
    if beyond:
        raise ModelError(
            f"the graph of this tagger takes {', '.join(beyond)}, of which only Trellis knows how to make it"
        )
    model = graph.model({"trellis": __version__, "labels": json.dumps(list(tagger.labels_), ensure_ascii=False)})
    if model.ByteSize() > LARGEST:
        raise ModelError(f"the graph has {model.ByteSize():,} bytes: one ONNX file holds at most {LARGEST:,}")
    described = _described(tagger, graph).encode("utf-8", "surrogatepass")
    write_together(
        {
            target: lambda partial: partial.write_bytes(model.SerializeToString()),
            sidecar: lambda partial: partial.write_bytes(described),
        }
    )
    return sidecar


def _refuse_other_file(sidecar: Path) -> None:
    """Nobody who names model.onnx means to replace a model.json that is something else."""
    if sidecar.is_file():
        try:
            with sidecar.open("rb") as file:
                is_ours = b'"starts_at"' in file.read(1000)
        except OSError as error:
            raise ModelError(f"{sidecar} cannot be read: {error.strerror or error}") from None
        if not is_ours:
            raise ModelError(f"{sidecar}, where the description would go, is another file: choose another name")


def _checked(outputs: Collection[str]) -> Collection[str]:
    unknown = [name for name in outputs if name not in OUTPUTS]
    if unknown or not outputs:
        raise ConfigError(
            f"outputs of a graph are one or more of {', '.join(OUTPUTS)}, got {', '.join(outputs) or 'none'}"
        )
    return outputs


def _graph(tagger: Tagger[Any], outputs: Collection[str]) -> Graph:
    decoder = _decoder(tagger)
    graph, learned = Graph(), exported_network(tagger)
    mask = graph.input("mask", "bool", ["batch", "length"])
    if learned is None:
        emissions = graph.input("emissions", "float32", ["batch", "length", decoder.num_states])
    else:
        emissions = add_network(graph, learned, tagger.settings_, mask)
    decoder.add_to(graph, emissions, mask, outputs)
    return graph


def _decoder(tagger: Tagger[Any]) -> Decoder:
    """The chain, which is the same for every input: it is read off a sentence of one token."""
    posterior = tagger.posterior([["x"]], lexicon=None)
    if posterior.scores.edges is not None or tagger.posterior([["x", "x"]], lexicon=None).scores.edges is not None:
        raise ModelError("this tagger cannot be exported: its transitions depend on the place")
    scores = posterior.scores
    labels = posterior.state_labels
    own = None if labels is None else np.asarray(labels, dtype=np.int64)
    return Decoder(scores.transitions, scores.start, scores.end, own, len(posterior.tags))


def _described(tagger: Tagger[Any], graph: Graph) -> str:
    """Labels, settings and vocabulary; ids count from 2, 0 is padding and 1 unknown."""
    learned = exported_network(tagger)
    content = {
        "format": FORMAT,
        "trellis": __version__,
        "opset": OPSET,
        "kind": tagger.kind,
        "starts_at": "emissions" if learned is None else "tokens",
        "inputs": [given.name for given in graph.inputs],
        "outputs": [given.name for given in graph.outputs],
        "labels": list(tagger.labels_),
        "scheme": tagger.tagset_.scheme.value,
        "tokenizer": splitter(tagger.tokenizer_).to_dict(),
        "settings": config.to_dict(tagger.settings_),
    }
    if learned is not None:
        content["vocabulary"] = _vocabulary(learned.vocabulary)
        if learned.plan is None:
            content["transformer"] = _transformer(learned.network.transformer)
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _transformer(transformer: Any) -> dict[str, Any]:
    """What makes windows of subwords: the tokenizer of the library tokenizers, and the ids around each window."""
    tokenizer = transformer.tokenizer
    around = {name: getattr(tokenizer, name) for name in ("prefix", "suffix", "prefix_types", "suffix_types")}
    sizes = {"window": transformer.window, "overlap": transformer.overlap}
    return {**json.loads(tokenizer.to_json()), **around, **sizes, "space": tokenizer.space}


def _vocabulary(vocabulary: Any) -> dict[str, Any]:
    names = {name: list(getattr(vocabulary, name).names) for name in ("words", "vectors", "characters", "pairs")}
    columns = {name: list(symbols.names) for name, symbols in vocabulary.columns.items()}
    return {**names, "columns": columns, "lower": vocabulary.lower}


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
    parts = plan_around(learned, tagger.settings_).parts
    tokens = encoded.token_ids(np.arange(len(seen)), parts)
    for name, part in parts.items():
        if isinstance(part, WordPlan):
            tables = {"word": (part.learnt, tokens.word), "vector": (part.vectors, tokens.vector)}
            ids = {key: rows for key, (table, rows) in tables.items() if table is not None}
        elif isinstance(part, CharacterPlan):
            assert tokens.spelt is not None
            ids = {"characters": tokens.spelt.padded()[tokens.spelt_index]}
        else:
            ids = {input_name(name): part.ids(tokens)}
        found |= {key: pad(rows, encoded.lengths) for key, rows in ids.items()}
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


def _mask(lengths: IntArray) -> AnyArray:
    mask: AnyArray = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
    return mask

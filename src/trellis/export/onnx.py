"""A tagger as an ONNX file, with a JSON file that says how to call it, or as a page that tags in the browser."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from trellis import __version__, config
from trellis.arrays import AnyArray, Arrays, IntArray
from trellis.errors import ConfigError, ModelError, StoreError
from trellis.export.decoder import OUTPUTS, Decoder
from trellis.export.emissions import INPUTS, add_network, input_name, plan_around
from trellis.export.graph import OPSET, Graph
from trellis.files import replacing, write_bytes, write_together
from trellis.models.data import tokens_of
from trellis.models.neural.model import LearnedNetwork
from trellis.models.neural.plan import CharacterPlan, LookupPlan, WordPlan
from trellis.models.tagger import Tagger
from trellis.ragged import pad
from trellis.text import splitter

FORMAT = 1
"""The version of the JSON file."""
LARGEST = 2**31 - 1
"""Bytes that an ONNX file can have."""
RUNTIME = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
"""The files of onnxruntime-web that the page needs."""
_PAGE_INPUTS = {"mask", "word", "vector", "characters", "pairs"}
"""The inputs of a graph that the page can compute from a text."""


def to_onnx(
    tagger: Tagger[Any], path: str | Path, *, inputs: Collection[str] | None = None, outputs: Collection[str] = OUTPUTS
) -> Path:
    """Write the tagger to `path` and its description to the same name with .json, which is returned.

    `outputs` are some of labels, marginals and probability; fewer outputs make a faster graph.

    The graph of a neural tagger starts at the ids of tokens or subwords, others start at emissions (see `feeds`). The
    lexicon of a tagger is not exported; a tagger whose transitions depend on the position is refused, and so is a graph
    with other inputs than `inputs`.
    """
    target = Path(path)
    if target.suffix == ".json":
        raise ModelError(f"{target} would be the description: name the file of the graph, such as model.onnx")
    sidecar = target.with_suffix(".json")
    _refuse_other_file(sidecar)
    if not outputs or not set(outputs) <= set(OUTPUTS):
        raise ConfigError(
            f"outputs of a graph are one or more of {', '.join(OUTPUTS)}, got {', '.join(outputs) or 'none'}"
        )
    graph = _graph(tagger, outputs)
    unknown = [given.name for given in graph.inputs if inputs is not None and given.name not in inputs]
    if unknown:
        raise ModelError(
            f"the graph of this tagger takes {', '.join(unknown)}, of which only Trellis knows how to make it"
        )
    model = graph.model({"trellis": __version__, "labels": json.dumps(list(tagger.labels_), ensure_ascii=False)})
    if model.ByteSize() > LARGEST:
        raise ModelError(f"the graph has {model.ByteSize():,} bytes: one ONNX file holds at most {LARGEST:,}")
    description = _description(tagger, graph).encode("utf-8", "surrogatepass")
    write_together(
        {
            target: lambda partial: partial.write_bytes(model.SerializeToString()),
            sidecar: lambda partial: partial.write_bytes(description),
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


def _graph(tagger: Tagger[Any], outputs: Collection[str]) -> Graph:
    # The chain is the same for every input: it is read off a sentence of one token.
    posterior = tagger.posterior([["x"]], lexicon=None)
    scores, labels = posterior.scores, posterior.state_labels
    if scores.edges is not None or tagger.posterior([["x", "x"]], lexicon=None).scores.edges is not None:
        raise ModelError("this tagger cannot be exported: its transitions depend on the place")
    state_labels = None if labels is None else np.asarray(labels, dtype=np.int64)
    decoder = Decoder(scores.transitions, scores.start, scores.end, state_labels, len(posterior.tags))
    graph, learned = Graph(), exported_network(tagger)
    mask = graph.input("mask", "bool", ["batch", "length"])
    if learned is None:
        emissions = graph.input("emissions", "float32", ["batch", "length", decoder.num_states])
    else:
        emissions = add_network(graph, learned, tagger.settings_, mask)
    decoder.add_to(graph, emissions, mask, outputs)
    return graph


def _description(tagger: Tagger[Any], graph: Graph) -> str:
    """The JSON file: labels, settings and vocabulary, whose ids count from 2 (0 is padding, 1 unknown)."""
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
        vocabulary = learned.vocabulary
        names = {name: list(getattr(vocabulary, name).names) for name in ("words", "vectors", "characters", "pairs")}
        columns = {name: list(symbols.names) for name, symbols in vocabulary.columns.items()}
        content["vocabulary"] = {**names, "columns": columns, "lower": vocabulary.lower}
        if learned.plan is None:
            # To make windows of subwords: the file of the library tokenizers, and the ids around each window.
            transformer = learned.network.transformer
            tokenizer = transformer.tokenizer
            around = {name: getattr(tokenizer, name) for name in ("prefix", "suffix", "prefix_types", "suffix_types")}
            sizes = {"window": transformer.window, "overlap": transformer.overlap}
            content["transformer"] = {**json.loads(tokenizer.to_json()), **around, **sizes, "space": tokenizer.space}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def feeds(tagger: Tagger[Any], sentences: Iterable[Any]) -> Arrays:
    """The inputs for the file that `to_onnx` writes, with these sentences as one batch."""
    inputs = list(sentences)
    learned = exported_network(tagger)
    if learned is None:
        scores = tagger.posterior(inputs, lexicon=None).scores
        return {"emissions": pad(scores.emissions.astype(np.float32), scores.lengths), "mask": _mask(scores.lengths)}
    seen = tagger._prepared(inputs, ())
    encoded = learned.vocabulary.encode(seen)
    arrays: Arrays = {"mask": _mask(encoded.lengths)}
    if learned.plan is None:
        arrays |= _windows(learned.network.transformer, seen)
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
            assert isinstance(part, LookupPlan)
            ids = {input_name(name): part.ids(tokens)}
        arrays |= {key: pad(rows, encoded.lengths) for key, rows in ids.items()}
    return arrays


def exported_network(tagger: Tagger[Any]) -> LearnedNetwork | None:
    """The network of a neural tagger, which is exported whole; None for a tagger whose graph starts at emissions."""
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
    return {name: np.full((1, 1)[: array.ndim], fills.get(name, 0), dtype=np.int64) for name, array in arrays.items()}


def _mask(lengths: IntArray) -> AnyArray:
    mask: AnyArray = np.arange(int(lengths.max(initial=0))) < lengths[:, None]
    return mask


def to_web(tagger: Tagger[Any], folder: str | Path, *, runtime: str | Path | None = None) -> Path:
    """Write page, model and description to `folder`; returns the path of the page.

    `runtime` is the folder ``dist`` of the npm package onnxruntime-web, whose files are copied too. Without it they
    must be added before the page works. Any file server will do, such as ``python -m http.server``.
    """
    target = Path(folder)
    sources = [] if runtime is None else [Path(runtime) / name for name in RUNTIME]
    for file in sources:
        if not file.is_file():
            raise ModelError(
                f"{file} is missing: runtime is the folder dist of onnxruntime-web (npm install onnxruntime-web)"
            )
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror or error}") from None
    to_onnx(tagger, target / "model.onnx", inputs=_PAGE_INPUTS)
    for source in sources:
        with replacing(target / source.name) as partial:
            shutil.copyfile(source, partial)
    for name in ("page.js", "index.html"):
        write_bytes(target / name, resources.files("trellis.export").joinpath("page", name).read_bytes())
    return target / "index.html"

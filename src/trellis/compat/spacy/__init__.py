"""Components of spaCy, registered by entry points: what is installed next to spaCy can be named in its pipelines.

    nlp.add_pipe("trellis_ner", config={"model": "folder"})          doc.ents, with probabilities
    nlp.add_pipe("trellis_tagger", config={"model": "folder"})       token.tag_ or token.pos_
    nlp.add_pipe("trellis_segmenter", config={"model": "folder"})    tokens merged to words
    [nlp.tokenizer] @tokenizers = "trellis_segmenter.v1"             the same as a tokenizer

`model` is a file or folder of Trellis. spaCy loads all entry points whenever it makes a pipeline, so nothing heavy is
imported here, and spaCy itself only once a factory is asked for.
"""

from __future__ import annotations

from typing import Any

_ENTRY_POINTS = ("segmenting_tokenizer", "trellis_ner", "trellis_segmenter", "trellis_tagger")


def __getattr__(name: str) -> Any:
    if name not in _ENTRY_POINTS:
        raise AttributeError(f"module 'trellis.compat.spacy' has no attribute {name!r}")
    from trellis.compat.spacy.factories import registered

    return registered()[name]


def __dir__() -> list[str]:
    return sorted(_ENTRY_POINTS)

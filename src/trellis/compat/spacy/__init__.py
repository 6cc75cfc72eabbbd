"""Components of spaCy, registered by entry points: what is installed next to spaCy can be named in its pipelines.

    nlp.add_pipe("trellis_ner", config={"model": "folder"})          doc.ents, with probabilities
    nlp.add_pipe("trellis_tagger", config={"model": "folder"})       token.tag_ or token.pos_
    nlp.add_pipe("trellis_segmenter", config={"model": "folder"})    tokens merged to words
    [nlp.tokenizer] @tokenizers = "trellis_segmenter.v1"             the same as a tokenizer

`model` is a file or folder of Trellis. spaCy loads all entry points whenever it makes a pipeline, so nothing heavy is
imported here, and spaCy itself only once a factory is asked for. It reads the types of their arguments, so they are not
strings here.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from trellis.errors import needed

_ENTRY_POINTS = ("segmenting_tokenizer", "trellis_ner", "trellis_segmenter", "trellis_tagger")


@cache
def registered() -> dict[str, Callable[..., Any]]:
    """The functions behind the entry points; factories are made known to spaCy."""
    language = needed("spacy", "spacy", "trellis.compat.spacy").Language
    for name, (make, settings, more) in _FACTORIES.items():
        defaults = {"model": None, "train": {"family": "crf"}, **settings}
        language.factory(name, default_config=defaults, func=make, **more)
    return {name: make for name, (make, _, _) in _FACTORIES.items()} | {"segmenting_tokenizer": make_tokenizer}


def make_ner(
    nlp: Any, name: str, model: str | None, train: dict[str, Any], spans_key: str | None, overwrite: bool
) -> Any:
    """Entities, beside those that are there unless `overwrite`; with probabilities the group `spans_key` of spans."""
    from trellis.compat.spacy.components import EntityComponent

    return EntityComponent(nlp, name, model, train, spans_key, overwrite)


def make_tagger(nlp: Any, name: str, model: str | None, train: dict[str, Any], attribute: str | None) -> Any:
    """Tags as "tag" or "pos"; by default "pos" if all labels are parts of speech of Universal Dependencies."""
    from trellis.compat.spacy.components import TagComponent

    return TagComponent(nlp, name, model, train, attribute)


def make_segmenter(nlp: Any, name: str, model: str | None, train: dict[str, Any]) -> Any:
    """Words from tokens that are smaller, such as the characters of spaCy's Chinese."""
    from trellis.compat.spacy.components import WordComponent

    return WordComponent(nlp, name, model, train)


_FACTORIES: dict[str, tuple[Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "trellis_ner": (
        make_ner,
        {"spans_key": "trellis", "overwrite": False},
        {
            "assigns": ["doc.ents", "doc.spans"],
            "default_score_weights": {"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
        },
    ),
    "trellis_tagger": (
        make_tagger,
        {"attribute": None},
        {"assigns": ["token.tag", "token.pos"], "default_score_weights": {"tag_acc": 0.5, "pos_acc": 0.5}},
    ),
    "trellis_segmenter": (
        make_segmenter,
        {},
        {"retokenizes": True, "default_score_weights": {"token_f": 1.0, "token_p": 0.0, "token_r": 0.0}},
    ),
}
"""What makes each component, its settings beside those of all, and what spaCy is told about it."""


def make_tokenizer(model: str | None = None) -> Callable[[Any], Any]:
    """A tokenizer that makes the words a segmenter finds."""
    from trellis.compat.spacy.components import SegmentingTokenizer

    def make(nlp: Any) -> Any:
        return SegmentingTokenizer(nlp, model)

    return make


def __getattr__(name: str) -> Any:
    if name not in _ENTRY_POINTS:
        raise AttributeError(f"module 'trellis.compat.spacy' has no attribute {name!r}")
    return registered()[name]


def __dir__() -> list[str]:
    return sorted(_ENTRY_POINTS)
